"""The page of two runs side by side: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from pipeline.comparison import disagreements, drawings, table
from pipeline.comparison.contrast import Contrast, Tested
from pipeline.comparison.correlations import Better, Comparison, who_is_better
from pipeline.comparison.runs import CAPTIONS, RESIZED
from pipeline.lineage.difference import Pair
from sightword.io.files import write_text
from sightword.report import gallery
from sightword.report import html_page as html
from sightword.report.drawing import Drawing
from sightword.report.number_formats import NONE, count, plain
from sightword.report.tables import Cell, Row, Table, code, quotes

QUERIES = 4
"""The number of captions that one run answers better, for each run."""
PAIRS = 6
"""The number of sentence pairs that one run ranks better, for each run."""
RANKED = 10
"""The k of the headlines."""
FOUND = {"caption_to_image": "caption to picture, R@10", "image_to_caption": "picture to caption, R@10"}
"""The name of recall@10 in each direction."""
HINTS = {
    "only A": "queries or pairs that A answers rightly and B does not",
    "only B": "queries or pairs that B answers rightly and A does not",
    "swap p": "share of random swaps of the answers with a difference as large",
    "bootstrap p": "by resampling the pairs",
    "McNemar p": "by the pairs that only one of the two classifies correctly",
    "Holm p": "corrected for the number of rows; below 0.05 the verdict names the better run",
    "A − B": "difference; its 95 % interval below",
}
"""The meaning of columns."""


def write(contrast: Contrast, path: Path) -> int:
    """Write the page of two runs, and return its size in bytes; a damaged file of a run is a FileFormatError."""
    text = render(contrast)
    write_text(path, text)
    return len(text.encode())


_MACROS = "pipeline.comparison/page.html"
_SEEDS = html.Note(
    "The tests cover the sampling of queries and pairs, not the randomness of training",
    "Two seeds of the same parameters may differ more than two systems. Compare several seeds before you call one "
    "method better.",
)
_FOOTER = "Made by <code>sightword compare {} {}</code>. Each run's own page is its <code>report/index.html</code>."
_RETRIEVAL = (
    "R@k: percent of the queries with a right answer among the first k, on the split {}; A&nbsp;−&nbsp;B with "
    "95&nbsp;% interval below. <em>Only A</em>: queries that A answers and B does not. Both answered the same queries. "
    "For the interval, pictures were drawn with replacement with all their queries, the same for both; for p, the "
    "answers of both to all queries of a picture were swapped at random (each {} times, seed {})."
)
_ROWS = (
    "Each interval is for its row alone. The verdict is corrected for all rows, so a row may be without significance "
    "although its interval excludes 0."
)
_SEMANTICS = (
    "Pearson's r with human scores and its 95&nbsp;% interval (Fisher); the difference has the interval of a paired "
    "bootstrap. The verdict is corrected for the number of rows (Holm); the mean is one test and not corrected."
)
_UNKNOWN = "The parameters of these two are not known."
_GALLERY = (
    "Captions with the largest difference in the rank of their picture; among equals a hash decided. The gallery "
    "shows examples, not frequencies: <em>only A</em> and <em>only B</em> in the table above are frequencies."
)


def render(contrast: Contrast) -> str:
    """Return the text of the page of two runs."""
    better, worse = _queries(contrast)
    a, b = contrast.a, contrast.b
    return html.render(
        f"{a.name} vs {b.name}",
        [
            _differs(contrast),
            _retrieval(contrast) if contrast.recalls else None,
            _semantics(contrast, contrast.semantics) if contrast.semantics else None,
            *map(_other_system, contrast.tested),
            _numbers(contrast.numbers) if contrast.numbers else None,
            _training(contrast),
            _gallery(contrast, better, worse) if better or worse else None,
            _outputs(contrast),
        ],
        top=html.part("sides", (a, b), template=_MACROS),
        footer=html.text(_FOOTER, a.name, b.name),
        notes=[*(html.Note("", one) for one in contrast.notes), _SEEDS],
        headlines=_cards(contrast),
    )


def _readable(lines: list[list[str]], caption: str, style: str = "") -> Markup:
    """Return a table with minus signs, dashes for undefined values, intervals below, and p with three decimals.

    Rows without a difference are folded.
    """
    head, *rows = lines
    kinds = ["p" if name.split()[-1] == "p" else "number" if name in ("A", "B", "A - B") else "" for name in head]
    names = [name.replace(" - ", " − ") for name in head]
    columns = [Cell(name, hint=HINTS.get(name, "")) for name in names]
    found: dict[bool, list[Row]] = {True: [], False: []}
    for row in rows:
        cells = []
        for words, kind in zip(row, kinds, strict=True):
            value, _, interval = _spelt(words, kind).partition(" [")
            cells.append(Cell(value, [f"[{interval}"] if interval else []))
        if row[-1] in ("A", "B"):
            cells[-1] = Cell(row[-1], style=f"better side-{row[-1].lower()}")
        found[row[-1] == "equal"].append(Row(cells[0].text, cells[1:]))
    differing, equal = (
        html.table(Table(one, columns, found[same], style=f"sortable {style}".strip())) if found[same] else Markup("")
        for one, same in ((caption, False), ("", True))
    )
    return differing + (html.fold(f"Without a difference: {caption} ({len(found[True])})", equal) if equal else "")


def _spelt(words: str, kind: str) -> str:
    if words == "-":
        return NONE
    if kind == "p" and words:
        return "<0.001" if words.startswith("<") or float(words) < 0.001 else f"{float(words):.3f}"
    return words.replace("-", "−") if kind else words


def _cards(contrast: Contrast) -> list[html.Headline]:
    """Return the differences that sum up the comparison."""
    found = []
    for row, cells in zip(contrast.recalls, table.recall_lines(contrast.recalls)[1:], strict=True):
        if row.depth == RANKED:
            found.append(_card(cells, " %", FOUND[row.direction], row.better))
    mean = contrast.semantics and contrast.semantics.mean
    if contrast.semantics and mean:
        what = f"mean Pearson r over {mean.subtasks} STS subtasks"
        better = who_is_better(mean.difference, mean.bootstrap and mean.bootstrap.p)
        found.append(_card(table.lines(contrast.semantics)[-1], "", what, better))
    return found


def _card(cells: Sequence[str], unit: str, what: str, better: Better) -> html.Headline:
    a, b, difference = (_spelt(one, "number") for one in cells[3:6])
    mark = html.markup('<span class="verdict">{}</span>', better or "could be chance")
    if better in ("A", "B"):
        mark = html.markup('<span class="verdict side-{}">{} is better</span>', better.lower(), better)
    return html.Headline(f"{a} / {b}{unit}", what, f"A − B: {difference}", mark)


def _differs(contrast: Contrast) -> html.Section:
    """Return the causes of the difference, the parameters that differ, and further details by stage."""
    found, parts = contrast.difference, html.Parts()
    if found and found.because:
        parts.append(html.lines(found.because, "causes"))
    elif found:
        parts.append(html.text("Nothing: all stages have the same parameters, code, data and outputs.", style="none"))
    elif not contrast.params:
        known = contrast.a.lock and contrast.b.lock
        words = "No parameters differ, as far as DVC recorded them." if known else _UNKNOWN
        parts.append(html.text(words, style="none"))
    if contrast.params:
        parts += _parameters(contrast.params)
    for stage in found.stages if found else ():
        details = [*map(code, stage.code), *(html.markup("raw data <code>{}</code>", path) for path in stage.data)]
        for gap, pairs in ((": ", stage.run), (" ", stage.packages)):
            details += [
                html.markup("{}{}{} / {}", name, gap, plain(ours), plain(theirs))
                for name, (ours, theirs) in pairs.items()
            ]
        parts.append(
            html.fold(f"{stage.name}: code, data, machine", html.lines(details), style="") if details else None
        )
    return html.Section("differs", "What differs", parts)


def _parameters(params: Mapping[str, Pair]) -> html.Parts:
    """Return the parameters that differ; those of a pipeline that only one of the two has run are folded."""
    files: dict[str, dict[str, Pair]] = {}
    for name, pair in params.items():
        files.setdefault(name.rpartition(":")[0], {})[name] = pair
    both, alone = list[Row](), html.Parts()
    for file, pairs in files.items():
        rows = [Row(code(name), [plain(ours), plain(theirs)]) for name, (ours, theirs) in pairs.items()]
        side = next((one for one, place in zip("AB", (1, 0), strict=True)
                     if file and all(pair[place] is None for pair in pairs.values())), "")  # fmt: skip
        if side:
            listed = html.table(Table("", ("name", "A", "B"), rows, style="wide left"))
            alone.append(html.fold(f"{file}: only {side} has run this pipeline ({len(rows)} parameters)", listed))
        else:
            both += rows
    shown = html.table(Table("Parameters", ("name", "A", "B"), both, style="wide left")) if both else None
    return [shown, *alone]


def _retrieval(contrast: Contrast) -> html.Section:
    split = contrast.answers[0].split if contrast.answers else ""
    rows = table.recall_lines(contrast.recalls)
    parts = [
        html.text(_RETRIEVAL, split, count(contrast.samples), contrast.seed),
        _readable(rows, "Recall", "recalls"),
        _below(
            [*table.recall_verdict(contrast.recalls, contrast.samples), _ROWS], drawings.recall_gaps(contrast.recalls)
        ),
    ]
    return html.Section("retrieval", "Retrieval", parts)


def _below(verdict: Sequence[str], drawing: Drawing | None) -> Markup | None:
    return html.beside(html.block(*(html.text("{}", line) for line in verdict)), html.figure(drawing), style="below")


def _semantics(contrast: Contrast, found: Comparison) -> html.Section:
    parts: html.Parts = [html.text(_SEMANTICS)]
    if contrast.unseen:
        words = "<strong>Only pairs of which neither sentence is a training caption of A or of B.</strong>"
        words += " {} does not list its training captions: all its pairs count as unseen." * len(found.unknown)
        parts.append(html.text(words, *found.unknown))
    verdict = table.verdict(found) + ([f"Left out: {', '.join(found.left_out)}."] if found.left_out else [])
    parts += [_readable(table.lines(found), "Correlation", "correlations")]
    parts.append(_below(verdict, drawings.semantic_gaps(found.rows)))
    if contrast.pairs:
        far = disagreements.pairs(contrast.pairs, number=PAIRS, unseen=contrast.unseen)
        both = [_pairs(side, rows) for side, rows in zip("AB", far, strict=True) if rows]
        words = "Ranks within the subtask{}: 0 is the pair furthest apart in meaning, 100 the closest."
        head = html.heading("Sentence pairs that one has nearly right and the other far off")
        if both:
            parts += [head, html.text(words, ", of all its pairs" if contrast.unseen else ""), html.beside(*both)]
    return html.Section("semantics", "Sentence similarity", parts)


def _pairs(side: str, pairs: Sequence[disagreements.Pair]) -> Markup:
    rows = [
        Row(quotes(one.first, one.second), [str(one.gold), str(one.a), str(one.b)], detail=one.subtask) for one in pairs
    ]
    caption = html.markup('<span class="side-{}">{}</span> ranks these better', side.lower(), side)
    return html.table(Table(caption, ("sentences", "human rank", "A's", "B's"), rows, style="worst both sortable"))


def _other_system(tested: Tested) -> html.Section:
    """Return the section of what a system declares for comparisons."""
    one = tested.compared
    results = _readable(table.result_lines(tested), f"{one.title} of both", one.name)
    below = [html.text("{}", line) for line in table.result_verdict(tested)]
    return html.Section(one.name, one.title, [html.text("{}", one.about), results, *below])


def _numbers(numbers: Sequence[tuple[str, float, float]]) -> html.Section:
    rows = [
        Row(code(name), [plain(a), plain(b), f"{a - b:+.6g}".replace("-", "−") if a != b else "0"])
        for name, a, b in numbers
    ]
    caption = "Scores in the metrics of both"
    listed = html.table(Table(caption, ("score", "A", "B", "A − B"), rows, style="sortable wide"))
    words = html.text("Only the means are known of these scores, so there is no test. A lower rank is better.")
    return html.Section("numbers", "Other numbers", [words, html.fold(f"{caption} ({len(numbers)})", listed)])


def _training(contrast: Contrast) -> html.Section | None:
    drawn = drawings.both_curves(contrast)
    return (
        html.Section("curves", "Training", [html.beside(*(html.figure(one, caption) for caption, one in drawn))])
        if drawn
        else None
    )


def _gallery(
    contrast: Contrast, better: Sequence[disagreements.Query], worse: Sequence[disagreements.Query]
) -> html.Section:
    depth = min(one.depth for one in contrast.answers or ())
    parts: html.Parts = [html.text(_GALLERY)]
    for side, asked in (("A", better), ("B", worse)):
        if asked:
            articles = [html.part("query", one, depth, template=_MACROS) for one in asked]
            parts += [html.heading("{} answers these better", side), html.beside(*articles)]
    return html.Section("gallery", "Gallery", parts)


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


def _outputs(contrast: Contrast) -> html.Section | None:
    """Return DVC's hashes of all outputs in A and in B; None without any."""
    ours, theirs = (
        {(entry.name, out.path): out.md5 for entry in lock.entries.values() for out in entry.outs} if lock else {}
        for lock in (contrast.a.lock, contrast.b.lock)
    )
    rows = []
    for stage, path in {**ours, **theirs}:
        hashes = [side.get((stage, path), "") for side in (ours, theirs)]
        cells = [html.part("digits", one) if one else "none" for one in hashes]
        same = hashes[0] == hashes[1]
        rows.append(Row(code(path), [cells[0] + " in both"] if same else cells, "same" if same else "", stage))
    if not rows:
        return None
    words = html.text("DVC's hash of each stage's outputs in <code>dvc.lock</code>.")
    if found := contrast.difference:
        command = "Code, data and parameters: <code>sightword audit --diff {} {}</code>"
        words = html.text(
            f"DVC's hash of each stage's outputs in <code>dvc.lock</code>. {command}", found.first, found.second
        )
    listed = html.table(Table("", ("output", "A", "B"), rows, style="outputs left"))
    return html.Section("chain", "Outputs", [words, html.fold(f"Hashes of the outputs ({len(rows)})", listed)])
