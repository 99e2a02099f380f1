"""The report of two runs side by side: one HTML file that needs no network and no other file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import jinja2
import numpy as np
from markupsafe import Markup

from pipeline.comparison import disagreements, drawings, table
from pipeline.comparison.contrast import Contrast
from pipeline.comparison.drawings import Gap, Line
from pipeline.comparison.recall import Recall
from pipeline.comparison.runs import CAPTIONS, CURVES, ENCODER, RESIZED, Side
from pipeline.comparison.systems import Better, who_is_better
from pipeline.lineage.lock import Lock
from sightword.errors import EncoderError, FileFormatError
from sightword.files import write_text
from sightword.report import attention, gallery, number_formats
from sightword.report.drawing import Drawing
from sightword.report.inputs import numbers, read_tsv
from sightword.report.plots import segments

QUERIES = 4
"""Captions that only one run answers, for each run."""
PAIRS = 6
"""Sentence pairs that one run is far better on, for each run."""
ATTENDED = 3
"""Captions with the attention of both."""
RANKED = 10
FAR = 10
"""Losses of two runs whose largest values are this many times apart are of other kinds."""


@dataclass(frozen=True)
class Card:
    """A headline."""

    value: str
    what: str
    beside: str
    better: Better


@dataclass(frozen=True)
class Output:
    """An output of a stage, and DVC's hash of it in either run; empty where a run does not have it."""

    stage: str
    path: str
    a: str
    b: str


@dataclass(frozen=True)
class Attended:
    """A caption with what either encoder weighs in it; None for one that pools in another way."""

    text: str
    a: attention.Attended | None
    b: attention.Attended | None


def write(contrast: Contrast, path: Path) -> int:
    """Write the page of two runs.

    Args:
        contrast: the two.
        path: of the page.

    Returns:
        Its size in bytes.

    Raises:
        FileFormatError: a file of a run is damaged.
        OSError: what the file system says.
    """
    text = render(contrast)
    write_text(path, text)
    return len(text.encode())


def render(contrast: Contrast) -> str:
    """The page's text."""
    ours, report = resources.files("pipeline.comparison"), resources.files("sightword.report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"n": number_formats.count, "plain": number_formats.plain}
    script = report.joinpath("page.js").read_text("utf-8")
    style = report.joinpath("page.css").read_text("utf-8") + ours.joinpath("page.css").read_text("utf-8")
    captions = _captions(contrast)
    better, worse = _queries(contrast, captions)
    notes = list(contrast.notes)
    return environment.from_string(ours.joinpath("page.html").read_text("utf-8")).render(
        contrast=contrast,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        cards=_cards(contrast),
        recalls=_cells(table.recall_lines(contrast.recalls)),
        recall_verdict=table.recall_verdict(contrast.recalls, contrast.samples),
        recall_drawing=_markup(_recall_gaps(contrast.recalls)),
        semantics=_cells(table.lines(contrast.semantics)) if contrast.semantics else None,
        semantics_verdict=table.verdict(contrast.semantics) if contrast.semantics else [],
        semantics_drawing=_markup(_semantic_gaps(contrast)),
        numbers=[
            (name, number_formats.plain(a), number_formats.plain(b), f"{a - b:+.6g}" if a != b else "0")
            for name, a, b in contrast.numbers
        ],
        pairs=disagreements.pairs(contrast.pairs, number=PAIRS, unseen=contrast.unseen)
        if contrast.pairs and contrast.semantics
        else ([], []),
        curves=[(caption, _markup(drawing)) for caption, drawing in _curves(contrast)],
        queries=[("A", better), ("B", worse)],
        depth=min(one.depth for one in contrast.answers) if contrast.answers else 0,
        attended=_attended(contrast, [one.text for one in (*better, *worse)], notes),
        notes=notes,
        outputs=_outputs(contrast.a.lock, contrast.b.lock),
    )


def _cards(contrast: Contrast) -> list[Card]:
    """The few differences that sum it up."""
    found = []
    what = {
        "caption_to_image": "of captions find their picture among ten",
        "image_to_caption": "of pictures find a caption of theirs among ten",
    }
    for row in contrast.recalls:
        if row.depth == RANKED:
            interval = "" if row.interval is None else f" [{row.interval[0]:+.1f}, {row.interval[1]:+.1f}]"
            value = f"{row.a:.1f} / {row.b:.1f} %"
            found.append(Card(value, what[row.direction], f"{row.difference:+.1f}{interval}", row.better))
    mean = None if contrast.semantics is None else contrast.semantics.mean
    if mean is not None:
        better = who_is_better(mean.difference, None if mean.bootstrap is None else mean.bootstrap.p)
        interval = "" if mean.bootstrap is None else f" [{mean.bootstrap.low:+.3f}, {mean.bootstrap.high:+.3f}]"
        said = f"mean Pearson r over {mean.subtasks} STS subtasks"
        found.append(Card(f"{mean.a:.3f} / {mean.b:.3f}", said, f"{mean.difference:+.3f}{interval}", better))
    return found


def _recall_gaps(rows: Sequence[Recall]) -> Drawing | None:
    known = [
        Gap(f"{table.QUERIES[row.direction]}, R@{row.depth}", row.difference, *row.interval, row.better)
        for row in rows
        if row.interval is not None
    ]
    if not known:
        return None
    title = "Differences of recalls in percent: " + ", ".join(f"{gap.label} {gap.value:+.1f}" for gap in known)
    return drawings.gaps("recall_gaps", known, xlabel="A - B in percent, with its 95 % interval", title=title)


def _semantic_gaps(contrast: Contrast) -> Drawing | None:
    rows = [] if contrast.semantics is None else contrast.semantics.rows
    known = [
        Gap(f"{row.task} {row.subtask}", row.difference, row.bootstrap.low, row.bootstrap.high, row.better)
        for row in rows
        if row.bootstrap is not None and row.difference is not None
    ]
    if not known:
        return None
    title = f"Differences of Pearson's r on {len(known)} sets of sentence pairs; the numbers are in the table"
    return drawings.gaps("semantic_gaps", known, xlabel="A - B of Pearson's r, with its 95 % interval", title=title)


def _curves(contrast: Contrast) -> list[tuple[str, Drawing]]:
    """The loss, and recall@10 on dev, of both; nothing where neither has them."""
    loss: list[tuple[str, Line]] = []
    recall: list[tuple[str, Line]] = []
    for side in (contrast.a, contrast.b):
        for path, found in zip(CURVES, (loss, recall), strict=True):
            file = side.file(path)
            columns = read_tsv(file) if file else {}
            where = f"{path} of {side.name}"
            if found is loss and columns:
                x, y, _, _ = segments(*(np.array(numbers(columns, name, where=where)) for name in ("step", "loss")))
                found.append((side.label, Line("", x.tolist(), y.tolist())))
            names = {"caption_to_image_r10": "to picture", "image_to_caption_r10": "to caption"}
            for name, words in names.items() if found is recall else ():
                if name in columns:
                    x, y = (np.array(numbers(columns, column, where=where)) for column in ("epoch", name))
                    found.append((side.label, Line(words, x.tolist(), y.tolist())))
    drawn = []
    for name, caption, lines, xlabel in (
        ("loss_both", "Loss", loss, "step"),
        ("recall_both", "Recall@10 on dev", recall, "epoch"),
    ):
        lines = [(side, line) for side, line in lines if len(line.x)]
        if lines:
            last = ", ".join(f"{side} {line.label} {line.y[-1]:.3g}".replace("  ", " ") for side, line in lines)
            title = f"{caption} of both runs, at the end {last}"
            ylabel = "loss" if name == "loss_both" else "percent"
            log = name == "loss_both" and _far_apart([line.y for _, line in lines])
            if log:
                caption = "Loss, logarithmic: the two are on other scales, so only their courses compare"
            drawn.append((caption, drawings.curves(name, lines, xlabel=xlabel, ylabel=ylabel, title=title, log=log)))
    return drawn


def _far_apart(series: Sequence[Sequence[float]]) -> bool:
    """Whether one of some positive series would be flat at the bottom beside the others."""
    most = [max(values) for values in series]
    return max(most) > FAR * min(most) and min(min(values) for values in series) > 0


def _captions(contrast: Contrast) -> gallery.Captions:
    """The captions that were asked, as the first run that has them writes them."""
    answers = contrast.answers
    for side in (contrast.a, contrast.b):
        if answers is not None and (file := side.file(CAPTIONS)) is not None:
            return gallery.read_captions(file, [answers[0].split])
    return gallery.Captions({}, {}, {})


def _queries(
    contrast: Contrast, captions: gallery.Captions
) -> tuple[list[disagreements.Query], list[disagreements.Query]]:
    if contrast.answers is None:
        return [], []
    pictures = next((file for side in (contrast.a, contrast.b) if (file := side.file(RESIZED)) is not None), None)
    return disagreements.queries(contrast.answers, captions, pictures, number=QUERIES)


def _attended(contrast: Contrast, texts: Sequence[str], notes: list[str]) -> list[Attended]:
    """What either encoder weighs, on a CPU; nothing where neither pools by attention.

    An encoder that this code cannot load, as one of an older form, is noted: the numbers stand without it.
    """
    texts = list(dict.fromkeys(texts))[:ATTENDED]
    both = []
    for side in (contrast.a, contrast.b):
        try:
            both.append(_one_attended(side, texts))
        except (EncoderError, FileFormatError) as error:
            both.append({})
            notes.append(f"What {side.label} weighs is not shown: its encoder {error.what}.")
    found = [Attended(text, both[0].get(text), both[1].get(text)) for text in texts]
    return [one for one in found if one.a or one.b]


def _one_attended(side: Side, texts: Sequence[str]) -> dict[str, attention.Attended]:
    folder = side.file(ENCODER)
    if folder is None or not texts:
        return {}
    from sightword.encoder.sentence_encoder import SentenceEncoder

    found = attention.attend(SentenceEncoder.load(folder, device="cpu"), texts) or []
    return {one.text: one for one in found}


def _outputs(a: Lock | None, b: Lock | None) -> list[Output]:
    """The outputs of all stages of both."""
    found: dict[tuple[str, str], Output] = {}
    for lock, side in ((a, "a"), (b, "b")):
        for entry in lock.entries.values() if lock else ():
            for out in entry.outs:
                key = (entry.name, out.path)
                before = found.get(key, Output(entry.name, out.path, "", ""))
                found[key] = replace(before, a=out.md5) if side == "a" else replace(before, b=out.md5)
    return list(found.values())


def _cells(lines: list[list[str]]) -> dict[str, list[list[tuple[str, str]]] | list[str]]:
    """A table's header and rows; a cell's interval stands below its number."""
    header, *rows = lines
    return {"header": header, "rows": [[_split(cell) for cell in row] for row in rows]}


def _split(cell: str) -> tuple[str, str]:
    number, bracket, rest = cell.partition(" [")
    return (number, f"[{rest}") if bracket and rest.endswith("]") else (cell, "")


def _markup(drawing: Drawing | None) -> Markup:
    return Markup("" if drawing is None else drawing.in_page())  # noqa: S704 - escaped by its maker
