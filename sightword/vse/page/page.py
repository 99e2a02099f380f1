"""The report page of a run: its sections, its drawings as files, and the numbers that sum up the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from sightword.evaluation import ledger
from sightword.evaluation.ledger import Count
from sightword.io.files import atomic_folder, write_text
from sightword.report import gallery as galleries
from sightword.report import html_page as html
from sightword.report import number_formats
from sightword.report.drawing import Drawing
from sightword.report.gallery import Captions, Gallery, evenly
from sightword.report.html_page import Note
from sightword.report.inputs import RunFiles, RunNumbers, read_run
from sightword.report.number_formats import count
from sightword.vse.page import drawings, facts, sentence_pairs, tables
from sightword.vse.page.sentence_pairs import SentencePairs
from sightword.vse.page.settings import ReportSettings

EXAMPLES = 4
"""The number of captions of the gallery to show at once; the others are folded."""
_MACROS = "sightword.vse.page/page.html"
_GALLERY = (
    "Captions of the split {} with the first {} retrieved pictures; the right picture is framed, with a ✓. Examples "
    "are sampled by a hash of the id, not hand-picked: as far as possible, a third has the right answer first, a "
    "third later, and a third not among the first {}. Frequencies are in the tables below."
)
_RETRIEVAL = (
    "Each caption of a split is a query for its picture among all pictures, and each picture is a query for one of "
    "its own captions. R@k: percent of queries with a right answer among the first k, with the 95&nbsp;% interval "
    "(Wald's; near 0 and 100 Wilson's). The rank is that of the best right answer; 1 is best, and ties count against "
    "the encoder."
)
_PUBLISHED = (
    'Rows under a data set marked <em class="mark">published</em> are as printed in the papers. They hold only for '
    "that data set and its number of candidates (a table has the rows of its own protocol), and cannot be compared "
    "with a run on other data. Their intervals are computed from their numbers of queries, where the paper gives "
    "these."
)
_SEMANTICS = (
    "The tables compare the encoder's cosine with human similarity scores of sentence pairs (in rows <em>trained</em>, "
    "the scores of a small head trained on its vectors). Pearson's r with its 95&nbsp;% interval (Fisher), and "
    "Spearman's ρ of the ranks; 1 is full agreement. <em>Seen</em>: the share of sentences that are verbatim training "
    "captions, with r over the pairs without such a sentence and their number below."
)
_CONTROLS = (
    "Controls: <em>tf-idf</em>, Pearson's r of the cosine of the n-grams of 2 to 4 characters, weighted by their "
    "frequency in the training captions, without any training; <em>untrained</em>, the same network with random "
    "weights. Chance is 0; of accuracies it is that of the most frequent class."
)
_ACCURACIES = (
    "Percent of test examples that a logistic regression on the vectors classifies correctly, with the 95&nbsp;% "
    "interval."
)
_BREAKDOWN = (
    "In each subtask, human scores and the encoder's cosines rank the pairs; the bars show the mean difference of a "
    "pair's two ranks. Dashed: a third, the mean of unrelated rankings. Shorter bars are better; pale bars have fewer "
    "than {} pairs and are uncertain. Each range includes its upper end."
)
_WORST = (
    "Pairs with the largest difference of two ranks within the subtask, from 0 for the least to 100 for the most "
    "similar pair, with the human score and the encoder's cosine below."
)
_SYSTEMS = (
    "Their scores as printed in the supplement of the paper, with intervals computed from their numbers of pairs."
)
_DOTS = (
    'Each dot is a pair of sentences, <span class="swatch">orange</span> if one of them is a training caption; '
    "r is over all pairs of a data set."
)


class Written(NamedTuple):
    """The page's size in bytes, the number of thumbnails, the heads of serious warnings, and the summary of the run."""

    size: int
    pictures: int
    notes: list[str]
    summary: dict[str, float | str]


class Content(NamedTuple):
    """A run and its examples."""

    settings: ReportSettings
    run: RunNumbers
    captions: Captions
    gallery: Gallery
    pairs: SentencePairs
    notes: list[Note]
    scorings: Mapping[tuple[str, str], Count]
    """How often each split was scored on which this encoder was, by the ledger."""
    drawn: dict[str, tuple[str, Drawing]]
    """Heads and drawings of sentence pairs, by name."""
    curves: list[tuple[str, Drawing]]
    """Captions and drawings of the training."""


def write(files: RunFiles, settings: ReportSettings, path: Path, plots_folder: Path | None = None) -> Written:
    """Read a run and write its page at ``path``.

    The folder ``plots_folder`` is replaced by one with the drawings as SVG files; None writes no files.

    Raises:
        FileFormatError: one of the run's files is missing, damaged, or of another form.
        ReportError: a picture cannot be shown.
    """
    shown = _read(files, settings)
    text = html.render(
        settings.title,
        [
            _gallery(shown),
            _retrieval(shown),
            _semantics(shown),
            _training(shown),
            html.Section("parameters", "Parameters", [html.facts(facts.parameters(shown.run))]),
        ],
        top=html.chips(*facts.chips(shown.run)),
        footer=html.made_by("report"),
        notes=shown.notes,
        headlines=facts.headlines(shown.run, shown.captions.each),
    )
    if plots_folder is not None:
        with atomic_folder(plots_folder) as folder:
            for _, drawing in (*shown.drawn.values(), *shown.curves):
                (folder / f"{drawing.name}.svg").write_text(drawing.svg(), "utf-8")
    write_text(path, text)
    serious = [note.head for note in shown.notes if note.serious]
    return Written(len(text.encode()), shown.gallery.with_thumbnails, serious, facts.summary(shown.run))


def _read(files: RunFiles, settings: ReportSettings) -> Content:
    run = read_run(files)
    top = galleries.read_top(files.top)
    captions = galleries.read_captions(files.captions, sorted({*top["split"], *run.retrieval}))
    gallery = galleries.build(top, captions, files.resized, number=settings.gallery, thumbnail=settings.thumbnail)
    pairs = sentence_pairs.read(
        files.pairs,
        files.plots / "semantics",
        points=settings.points,
        worst=settings.worst,
        with_published=settings.published,
    )
    scorings = ledger.of_encoder(ledger.read(files.metrics / ledger.FILE), ledger.hash_of(files.encoder))
    drawn = {}
    if pairs.systems:
        head = "Comparison with published systems (as Figure 3 of Merkx &amp; Frank 2019)"
        drawn["systems"] = head, drawings.systems(pairs.systems)
    if pairs.panels:
        drawn["panels"] = "Cosine vs human score", drawings.scatter(pairs.panels)
    if pairs.bins:
        drawn["bins"] = "Disagreement by length and by shared words", drawings.breakdown(pairs.bins)
    notes, curves = facts.notes(run, gallery), drawings.curves(run)
    return Content(settings, run, captions, gallery, pairs, notes, scorings, drawn, curves)


def _gallery(shown: Content) -> html.Section | None:
    """Return captions with their pictures, and pictures with their captions."""
    gallery = shown.gallery
    if not (gallery.captions or gallery.pictures):
        return None
    examples = evenly(gallery.captions, EXAMPLES)
    answered = [html.part("answered", query, gallery.depth, template=_MACROS) for query in examples]
    more = [
        html.part("answered", query, gallery.depth, template=_MACROS)
        for query in gallery.captions
        if query not in examples
    ]
    pictures = [html.part("described", query, gallery.depth, template=_MACROS) for query in gallery.pictures]
    parts: html.Parts = [html.text(_GALLERY, gallery.split, gallery.depth, gallery.depth)]
    if gallery.without_thumbnails:
        parts.append(html.text("{}", facts.why_no_pictures(shown.run, gallery), style="none"))
    parts += answered
    if more:
        parts.append(html.fold(f"More captions and their retrieved pictures ({len(more)})", *more))
    if pictures:
        head = f"Pictures and their retrieved captions ({len(pictures)})"
        parts.append(html.fold(head, html.beside(*pictures)))
    return html.Section("gallery", "Gallery", parts)


def _retrieval(shown: Content) -> html.Section:
    """Return the tables of recall."""
    scores, published = shown.run.retrieval, shown.settings.published
    recalls = tables.retrieval(scores, shown.captions.each, with_published=published)
    parts: html.Parts = [html.text(_RETRIEVAL), html.text(_PUBLISHED) if published else None]
    for (split, protocol), directions in recalls.items():
        parts += [html.heading("{}: {}", split, protocol), html.beside(*map(html.table, directions))]
    parts.append(_scorings(shown, pictures=True))
    if not recalls:
        parts.append(html.text("This run has no retrieval scores.", style="none"))
    for split, table in tables.across_languages(scores).items():
        parts += [html.heading("{}: captions across languages", split), html.table(table)]
    return html.Section("retrieval", "Retrieval", parts)


def _semantics(shown: Content) -> html.Section:
    """Return the tables of correlations and of accuracies, the drawings, and the largest errors."""
    correlations, accuracies = tables.correlations(shown.run.semantics), tables.accuracies(shown.run.semantics)
    parts: html.Parts = []
    if correlations:
        parts += [html.text(_SEMANTICS), html.table(correlations)]
    if accuracies:
        parts += [html.text(_ACCURACIES, style="apart"), html.table(accuracies)]
    if parts:
        controls = html.text(_CONTROLS) if shown.run.semantics.get("controls") else None
        parts += [controls, _scorings(shown, pictures=False)]
    if not correlations:
        parts.insert(0, html.text("This run has no scores of sentence similarity.", style="none"))
    words = {"systems": html.text(_SYSTEMS), "panels": _dots(shown.pairs)}
    words["bins"] = html.text(_BREAKDOWN, number_formats.FEW)
    blocks = [
        html.block(html.heading(head), words[name], html.figure(drawing))
        for name, (head, drawing) in shown.drawn.items()
    ]
    parts.append(html.block(*blocks, style="balanced"))
    if worst := shown.pairs.worst:
        listed = html.text(_WORST), html.table(sentence_pairs.worst_table(worst))
        parts.append(html.fold(f"Largest errors ({len(worst)})", *listed, style="fold apart"))
    return html.Section("semantics", "Sentence similarity", parts)


def _scorings(shown: Content, *, pictures: bool) -> Markup | None:
    """Return how often the splits of pictures, or of all other tasks, were scored; None without a known scoring."""
    counts = {key: one for key, one in shown.scorings.items() if (key[1] == ledger.PICTURES) is pictures}
    return html.scorings(ledger.in_words(counts))


def _dots(pairs: SentencePairs) -> Markup:
    """Say what the scatter plots show, and what they leave out."""
    words = _DOTS
    points, total = sum(len(panel.gold) for panel in pairs.panels), sum(panel.pairs for panel in pairs.panels)
    if points < total:
        words += f" The plots show {count(points)} of {count(total)} pairs, chosen by a hash."
    if pairs.others:
        words += f" The table above has {pairs.others} more data sets than these {len(pairs.panels)}."
    return html.text(words)


def _training(shown: Content) -> html.Section:
    """Return the curves of the training run."""
    parts: html.Parts = [html.text("This run has no training curves.", style="none")]
    if shown.curves:
        parts = [html.text("Ticks at the lower edge: the kept snapshots. Dashed: the snapshots in the encoder.")]
        parts += [html.beside(*(html.figure(drawing, caption) for caption, drawing in shown.curves))]
    parts += [html.text("<strong>{}.</strong> {}", note.head, note.text) for note in facts.remarks(shown.run)]
    return html.Section("curves", "Training", parts)
