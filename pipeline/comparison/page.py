"""The page of two runs side by side: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from pipeline.comparison import disagreements, drawings, table
from pipeline.comparison.contrast import Contrast
from pipeline.comparison.drawings import Line
from pipeline.comparison.recall import Recall
from pipeline.comparison.runs import CAPTIONS, CURVES, ENCODER, RESIZED
from pipeline.comparison.systems import Better, Row, who_is_better
from sightword.errors import EncoderError, FileFormatError
from sightword.io.files import write_text
from sightword.report import attention, gallery, html_page
from sightword.report.drawing import Interval
from sightword.report.inputs import numbers, read_tsv
from sightword.report.number_formats import NONE, plain
from sightword.report.plots import segments

QUERIES = 4
"""The number of captions that one run answers better, for each run."""
PAIRS = 6
"""The number of sentence pairs that one run ranks better, for each run."""
ATTENDED = 3
"""The number of captions with the attention of both."""
RANKED = 10
"""The k of the headlines."""
FAR = 10
"""Losses of two runs whose largest values differ by this factor are of different kinds."""
FOUND = {"caption_to_image": "caption to picture, R@10", "image_to_caption": "picture to caption, R@10"}
"""The name of recall@10 in each direction."""
ON_DEMAND = ("Williams p", "Steiger p")
"""The columns of tests that decide nothing: the page shows them on demand."""


def write(contrast: Contrast, path: Path) -> int:
    """Write the page of two runs, and return its size in bytes; a damaged file of a run is a FileFormatError."""
    text = render(contrast)
    write_text(path, text)
    return len(text.encode())


def render(contrast: Contrast) -> str:
    """Return the text of the page of two runs."""
    semantics, answers = contrast.semantics, contrast.answers
    better, worse = _queries(contrast)
    attended, unreadable = _attended(contrast, [one.text for one in (*better, *worse)])
    with_pairs = contrast.pairs if semantics else None
    return html_page.render(
        "pipeline.comparison",
        contrast=contrast,
        cards=_cards(contrast),
        on_demand=ON_DEMAND,
        recalls=_readable(table.recall_lines(contrast.recalls)),
        recall_verdict=table.recall_verdict(contrast.recalls, contrast.samples),
        recall_drawing=_recall_gaps(contrast.recalls),
        semantics=_readable(table.lines(semantics)) if semantics else None,
        semantics_verdict=table.verdict(semantics) if semantics else [],
        semantics_drawing=_semantic_gaps(semantics.rows if semantics else ()),
        tested=[
            (one.compared, _readable(table.result_lines(one)), table.result_verdict(one)) for one in contrast.tested
        ],
        numbers=[
            (name, plain(a), plain(b), f"{a - b:+.6g}".replace("-", "−") if a != b else "0")
            for name, a, b in contrast.numbers
        ],
        pairs=disagreements.pairs(with_pairs, number=PAIRS, unseen=contrast.unseen) if with_pairs else ([], []),
        curves=_curves(contrast),
        queries=[("A", better), ("B", worse)],
        depth=min(one.depth for one in answers) if answers else 0,
        attended=attended,
        notes=[*contrast.notes, *unreadable],
        outputs=_outputs(contrast),
    )


def _readable(lines: list[list[str]]) -> list[list[str]]:
    """Return the cells of a table with minus signs, dashes for undefined values, and p with three decimals."""
    head, *rows = lines
    kinds = ["p" if name.split()[-1] == "p" else "number" if name in ("A", "B", "A - B") else "" for name in head]
    shown = [[_cell(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in rows]
    return [[name.replace(" - ", " − ") for name in head], *shown]


def _cell(text: str, kind: str) -> str:
    if text == "-":
        return NONE
    if kind == "p" and text:
        return "<0.001" if text.startswith("<") or float(text) < 0.001 else f"{float(text):.3f}"
    return text.replace("-", "−") if kind else text


def _cards(contrast: Contrast) -> list[tuple[str, str, str, Better]]:
    """Return the differences that sum up the comparison: both values, their meaning, the difference, who is better."""
    found = []
    for row, cells in zip(contrast.recalls, _readable(table.recall_lines(contrast.recalls))[1:], strict=True):
        if row.depth == RANKED:
            found.append((f"{cells[3]} / {cells[4]} %", FOUND[row.direction], cells[5], row.better))
    mean = contrast.semantics and contrast.semantics.mean
    if contrast.semantics and mean:
        cells = _readable(table.lines(contrast.semantics))[-1]
        what = f"mean Pearson r over {mean.subtasks} STS subtasks"
        better = who_is_better(mean.difference, mean.bootstrap and mean.bootstrap.p)
        found.append((f"{cells[3]} / {cells[4]}", what, cells[5], better))
    return found


def _recall_gaps(rows: Sequence[Recall]) -> Markup:
    known = [
        Interval(f"{table.QUERIES[row.direction]}, R@{row.depth}", row.difference, *row.interval, row.better)
        for row in rows
        if row.interval is not None
    ]
    title = "Differences of recalls in percent: " + ", ".join(f"{gap.label} {gap.value:+.1f}" for gap in known)
    return _gaps("recall_gaps", known, "A − B in percent", title)


def _semantic_gaps(rows: Sequence[Row]) -> Markup:
    known = [
        Interval(f"{row.task} {row.subtask}", row.difference, row.bootstrap.low, row.bootstrap.high, row.better)
        for row in rows
        if row.bootstrap is not None and row.difference is not None
    ]
    title = f"Differences of Pearson's r on {len(known)} sets of sentence pairs; the numbers are in the table"
    return _gaps("semantic_gaps", known, "A − B of Pearson's r", title)


def _gaps(name: str, known: list[Interval], what: str, title: str) -> Markup:
    if not known:
        return Markup("")
    return html_page.inline(drawings.gaps(name, known, xlabel=f"{what}, with its 95 % interval", title=title))


def _curves(contrast: Contrast) -> list[tuple[str, Markup]]:
    """Return the drawings of the loss, and of recall@10 on dev, of both runs, as far as there are curves."""
    drawn = []
    losses = [
        line._replace(x=x.tolist(), y=y.tolist())
        for line in _lines(contrast, CURVES[0], "step", {"loss": ""})
        for x, y, *_ in [segments(np.array(line.x), np.array(line.y))]
    ]
    if losses:
        log = _far_apart([line.y for line in losses])
        caption = "Loss, logarithmic: the two are on other scales, so only their courses compare" if log else "Loss"
        title = f"Loss of both runs, at the end {_last(losses)}"
        drawing = drawings.curves("loss_both", losses, xlabel="step", ylabel="loss", title=title, log=log)
        drawn.append((caption, html_page.inline(drawing)))
    names = {"caption_to_image_r10": "to picture", "image_to_caption_r10": "to caption"}
    recalls = _lines(contrast, CURVES[1], "epoch", names)
    if recalls:
        title = f"Recall@10 on dev of both runs, at the end {_last(recalls)}"
        drawing = drawings.curves("recall_both", recalls, xlabel="epoch", ylabel="percent", title=title)
        drawn.append(("Recall@10 on dev", html_page.inline(drawing)))
    return drawn


def _lines(contrast: Contrast, path: Path, x: str, names: dict[str, str]) -> list[Line]:
    """Return the columns of both runs' tables as curves of two points or more; the labels are by the columns' names."""
    found = []
    for side in (contrast.a, contrast.b):
        file, where = side.file(path), f"{path} of {side.name}"
        columns = read_tsv(file) if file else {}
        for name, label in names.items():
            if columns and (name in columns or x == "step"):  # a table of the loss without the loss is an error
                xs, ys = (numbers(columns, column, where=where) for column in (x, name))
                found.append(Line(side.label, label, xs, ys))
    return [line for line in found if len(line.x) > 1]


def _last(lines: Sequence[Line]) -> str:
    return ", ".join(f"{line.side} {line.label} {line.y[-1]:.3g}".replace("  ", " ") for line in lines)


def _far_apart(series: Sequence[Sequence[float]]) -> bool:
    """Return whether one of some positive series would be flat at the bottom beside the others."""
    most = [max(values) for values in series]
    return max(most) > FAR * min(most) and min(min(values) for values in series) > 0


def _queries(contrast: Contrast) -> tuple[list[disagreements.Query], list[disagreements.Query]]:
    """Return the captions that one run answers better; texts and pictures are those of the first run that has them."""
    if contrast.answers is None:
        return [], []
    texts, pictures = (
        next((file for side in (contrast.a, contrast.b) if (file := side.file(path)) is not None), None)
        for path in (CAPTIONS, RESIZED)
    )
    captions = gallery.read_captions(texts, [contrast.answers[0].split]) if texts else gallery.Captions()
    return disagreements.queries(contrast.answers, captions, pictures, number=QUERIES)


def _attended(contrast: Contrast, texts: Sequence[str]) -> tuple[list[tuple[object, object]], list[str]]:
    """Return the attention of both encoders in some captions, without captions that neither attends to, and notes.

    An encoder that cannot be loaded, such as one of an older form, is noted, since the numbers do not need it.
    """
    texts = list(dict.fromkeys(texts))[:ATTENDED]
    both: list[dict[str, attention.Attended]] = []
    notes = []
    for side in (contrast.a, contrast.b):
        folder, found = side.file(ENCODER), None
        try:
            found = attention.attend_with(folder, texts) if folder is not None else None
        except (EncoderError, FileFormatError) as error:
            notes.append(f"What {side.label} weighs is not shown: its encoder {error.what}.")
        both.append({one.text: one for one in found or ()})
    return [(both[0].get(text), both[1].get(text)) for text in texts if text in {**both[0], **both[1]}], notes


def _outputs(contrast: Contrast) -> list[tuple[str, str, str, str]]:
    """Return stage, path, and DVC's hash in A and in B of all outputs; empty in a run without the output."""
    ours, theirs = (
        {(entry.name, out.path): out.md5 for entry in lock.entries.values() for out in entry.outs} if lock else {}
        for lock in (contrast.a.lock, contrast.b.lock)
    )
    return [(*key, ours.get(key, ""), theirs.get(key, "")) for key in {**ours, **theirs}]
