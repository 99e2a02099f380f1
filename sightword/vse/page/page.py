"""The report page of a run: its sections and drawings, warnings of every fallback, headlines, and the summary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from sightword.evaluation import ledger
from sightword.evaluation.ledger import Count
from sightword.evaluation.semantics.results import mean_of_seven
from sightword.features.tables.origin import control, random_weights
from sightword.io.files import atomic_folder, write_text
from sightword.messages import flat
from sightword.report import gallery as galleries
from sightword.report import html_page as html
from sightword.report import number_formats
from sightword.report.departures import Departure
from sightword.report.drawing import Drawing
from sightword.report.gallery import Captions, Gallery, evenly, headline_split
from sightword.report.html_page import DEMONSTRATED, Headline, Note
from sightword.report.inputs import RunFiles, RunNumbers, read_run
from sightword.report.number_formats import count, counted, is_number, much_seen, share
from sightword.vse.page import drawings, tables
from sightword.vse.page.settings import ReportSettings
from sightword.vse.page.tables import SentencePairs

EXAMPLES = 4
"""The number of captions of the gallery to show at once; the others are folded."""
THUMBNAIL = 128
"""Longest side of a small picture, in pixels."""
_MACROS = "sightword.vse.page/page.html"
_GALLERY = (
    "Captions of the split {} with the first {} retrieved pictures; the right picture is framed, with a ✓. Examples "
    "are sampled by a hash of the id, not hand-picked: by turns with the right answer first, later, and not among the "
    "first {}, but of other pictures as long as there are any. Frequencies are in the tables below."
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

_NO_EVIDENCE = "Its numbers show what remains without the right pictures or captions, and are no result of the method."
FOUND = {
    "caption_to_image": "of captions find their picture first",
    "image_to_caption": "of pictures find one of their captions first",
}
"""The meaning of recall@1 in each direction."""
DIRECTIONS = (("image", "caption_to_image"), ("caption", "image_to_caption"))
"""The direction of each kind of answer."""
PROTOCOLS = (("", "full"), ("_1k", "five_fold_1k"), ("_querybank", "querybank"))


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


def write(
    files: RunFiles,
    settings: ReportSettings,
    path: Path,
    plots_folder: Path | None = None,
    departed: Sequence[Departure] = (),
) -> Written:
    """Read a run and write its page at ``path``.

    The folder ``plots_folder`` is replaced by one with the drawings as SVG files; None writes no files. ``departed``
    are the parameters that are not the published ones.

    Raises:
        FileFormatError: one of the run's files is missing, damaged, or of another form.
        ReportError: a picture cannot be shown.
    """
    shown = _read(files, settings)
    curves = [html.figure(drawing, caption) for caption, drawing in shown.curves]
    text = html.render(
        settings.title,
        [
            html.made(departed, "report/index.html", ledger.hash_of(files.encoder)),
            _gallery(shown),
            _retrieval(shown),
            _semantics(shown),
            html.Section("training", "Training", [html.fold(f"Curves ({len(curves)})", html.beside(*curves))])
            if curves
            else None,
        ],
        top=html.chips(*chips(shown.run)),
        footer=html.made_by("report"),
        notes=shown.notes,
        headlines=[
            *headlines(shown.run, shown.captions.each),
            *html.sparks(drawing for _, drawing in shown.curves),
        ],
    )
    if plots_folder is not None:
        with atomic_folder(plots_folder) as folder:
            for _, drawing in (*shown.drawn.values(), *shown.curves):
                (folder / f"{drawing.name}.svg").write_text(drawing.svg(), "utf-8")
    write_text(path, text)
    serious = [note.head for note in shown.notes if note.serious]
    return Written(len(text.encode()), shown.gallery.with_thumbnails, serious, summary(shown.run))


def _read(files: RunFiles, settings: ReportSettings) -> Content:
    run = read_run(files)
    top = galleries.read_top(files.top)
    captions = galleries.read_captions(files.captions, sorted({*top["split"], *run.retrieval}))
    gallery = galleries.build(top, captions, files.resized, number=settings.gallery, thumbnail=THUMBNAIL)
    pairs = tables.read_sentence_pairs(files.pairs, files.plots / "semantics", with_published=settings.published)
    scorings = ledger.of_encoder(ledger.read(files.metrics / ledger.FILE), ledger.hash_of(files.encoder))
    drawn = {}
    if pairs.systems:
        head = "Comparison with published systems (as Figure 3 of Merkx &amp; Frank 2019)"
        drawn["systems"] = head, drawings.systems(pairs.systems)
    if pairs.panels:
        drawn["panels"] = "Cosine vs human score", drawings.scatter(pairs.panels)
    told, curves = notes(run, gallery), drawings.curves(run)
    return Content(settings, run, captions, gallery, pairs, told, scorings, drawn, curves)


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
        parts.append(html.text("{}", why_no_pictures(shown.run, gallery), style="none"))
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
    parts.append(_scorings(shown, pictures=True))
    for (split, protocol), directions in recalls.items():
        parts += [html.heading("{}: {}", split, protocol), html.beside(*map(html.table, directions))]
    if not recalls:
        parts.append(html.text("This run has no retrieval scores.", style="none"))
    for split, table in tables.across_languages(scores).items():
        parts += [html.heading("{}: captions across languages", split), html.table(table)]
    for split, table in tables.short_queries(scores).items():
        parts += [html.heading("{}: short queries", split), html.table(table)]
    return html.Section("retrieval", "Retrieval", parts)


def _semantics(shown: Content) -> html.Section:
    """Return the tables of correlations and of accuracies, the drawings, and the largest errors."""
    correlations, accuracies = tables.correlations(shown.run.semantics), tables.accuracies(shown.run.semantics)
    parts: html.Parts = []
    controls = html.text(_CONTROLS) if shown.run.semantics.get("controls") else None
    if correlations:
        prose = [html.text(_SEMANTICS), controls, _scorings(shown, pictures=False)]
        parts.append(html.beside_prose(prose, html.table(correlations)))
    if accuracies:
        parts.append(html.beside_prose([html.text(_ACCURACIES)], html.table(accuracies)))
    if not correlations:
        none = "This run has no scores of sentence similarity. <code>sightword fetch senteval</code> brings pairs in "
        none += "English, <code>sightword fetch stsb-multi-mt</code> in ten more languages."
        parts.insert(0, html.text(none, style="none"))
    words = {"systems": html.text(_SYSTEMS), "panels": _dots(shown.pairs)}
    for name, (head, drawing) in shown.drawn.items():
        parts.append(html.beside(html.block(html.heading(head), words[name]), html.figure(drawing), style="apart"))
    if worst := shown.pairs.worst:
        listed = html.text(_WORST), html.table(tables.worst_table(worst))
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


def notes(run: RunNumbers, gallery: Gallery) -> list[Note]:
    """Return the warnings, the most serious first."""
    lost = 0 if run.rejects else run.train.get("rejected_pictures")
    left_out = [_reasons(counts, kind) for kind, counts in run.dropped.items() if counts]
    drawn = next((str(one["drawn_splits"]) for one in run.retrieval.values() if "drawn_splits" in one), "")
    scored = [(f"{name} {key}".strip(), scores) for name, key, scores in tables.scored(run.semantics)]
    copies = [(name, scores["seen_in_training"]) for name, scores in scored if much_seen(scores)]
    seen = ", ".join(f"{name} ({share(part)})" for name, part in copies)
    undefined = ", ".join(name for name, scores in scored if scores["pearson"] is None)
    zeros = ", ".join(
        f"{name} ({count(scores['zero_vectors'])} sentences)" for name, scores in scored if scores.get("zero_vectors")
    )
    sizes = {name: one["full"]["image_to_caption"]["queries"] for name, one in run.retrieval.items() if "full" in one}
    few = [
        f"{name} has {counted(n, 'picture')}, so R@10 is {min(1000 // n, 100)} % by chance"
        for name, n in sizes.items()
        if n < 100
    ]
    missing = "; ".join(f"{name}: {reason}" for name, reason in run.semantics.get("skipped", {}).items())
    skipped = tables.skipped(run.retrieval)
    elsewhere = f"The features were computed elsewhere and are used unchanged: {origin(run.features)}"
    unusable = f"Unusable pictures are in none of the numbers: {_reasons(run.rejects, 'picture')}."
    copied = f"At least a tenth of the sentences of these sets are training captions: {seen}."
    known: list[tuple[object, Note]] = [
        (random_weights(run.features), DEMONSTRATED),
        (control(run.training), Note("A control", f"{control(run.training)} {_NO_EVIDENCE}", serious=True)),
        (is_precomputed(run.features), Note("Precomputed features", elsewhere)),
        (run.rejects, Note("Skipped pictures", unusable)),
        (
            is_number(lost) and lost > 0,
            Note("Pictures without features", f"{count(lost)} of them, which are in none of the numbers."),
        ),
        (drawn, Note("Drawn splits", f"{drawn}. The corpus names no splits.")),
        (few, Note("Few pictures", "; ".join(few) + ".")),
        (left_out, Note("Left out of the corpus", "; ".join(left_out) + ".")),
        (seen, Note("Seen in training", copied)),
        (missing and scored, Note("Missing data sets", f"{missing}.")),
        (skipped, Note("Retrieval scores left out", "; ".join(skipped) + ".")),
        (undefined, Note("No correlation", f"{undefined}: all pairs have the same score.", serious=True)),
        (zeros, Note("Vectors of zeros", f"{zeros}: their cosines count as 0.", serious=True)),
        (gallery.without_thumbnails, Note("No pictures to show", why_no_pictures(run, gallery))),
    ]
    return [note for applies, note in known if applies]


def headlines(run: RunNumbers, captions_each: Mapping[str, list[int]]) -> list[Headline]:
    """Return the few numbers that sum up the run."""
    tiles = []
    split = headline_split(run.retrieval)
    scores, each = run.retrieval.get(split, {}).get("full", {}), captions_each.get(split)
    for direction, meaning in FOUND.items():
        first, interval, tenth = (scores.get(direction, {}).get(key) for key in ("r1", "r1_ci95", "r10"))
        if is_number(first):
            shown, remark = number_formats.tile(first, interval)
            among = f"R@1, split {split}"
            if each:
                by_chance = tables.chance(direction, each, 1)
                lift = first / by_chance
                meaning += f", {lift:.{0 if lift > 9.5 else 1}f} times chance"
                among = f"R@1 among {len(each) if direction == 'caption_to_image' else sum(each):,}, split {split}"
            context = "; ".join(filter(None, (remark, among, f"R@10 {number_formats.percent(tenth)} %")))
            tiles.append(Headline(shown, meaning, context))
    mean = tables.headline(run.semantics)
    if mean is not None:
        what = f"mean Pearson r over {mean[0]}"
        context = "1 is agreement with human scores"
        if (floor := tables.headline_of(run.semantics, "tfidf")) is not None:
            context += f"; {number_formats.correlation(floor)} without training (tf-idf of n-grams)"
        tiles.append(Headline(number_formats.correlation(mean[1]), what, context))
    return tiles


def chips(run: RunNumbers) -> list[str]:
    """Return facts of the run in a few words each; an unknown one is empty."""
    training, features, members = run.training, run.features, run.select.get("members")
    cell, hidden = str(training.get("cell") or ""), training.get("hidden")
    kinds = {"ngrams": "bag of n-grams", "tfidf": "bag of n-grams, weighted by their frequency"}
    network = kinds.get(cell, cell.upper() + (f", {hidden:,} units" if isinstance(hidden, int) else ""))
    snapshots = f"sum of {counted(int(members), 'snapshot')}" if is_number(members) and members > 1 else ""
    backbone = features.get("backbone")
    return [network, f"features of {backbone}" if backbone else "", snapshots]


def summary(run: RunNumbers) -> dict[str, float | str]:
    """Return the content of ``metrics/summary.json``.

    Returns:
        ``dev_r10``: mean recall@10 of both directions on dev, which selects models. Then, for the scored ``split``, in
            percent: ``image_r1`` and ``image_r10`` (pictures found by captions), ``caption_r1`` and ``caption_r10``
            (captions found by pictures), the same with ``_1k`` for five folds, and with ``_querybank`` for scores
            with a query bank. As fractions: ``sts``, the mean of Pearson's r over all STS subtasks, ``stsb`` and
            ``sick``, Pearson's r of the test pairs' cosines, and ``seven``, Spearman's mean over the seven tasks
            (:func:`sightword.evaluation.semantics.results.mean_of_seven`). Missing numbers are left out.
    """
    scores: dict[str, object] = {"dev_r10": run.select.get("ensemble_r10")}
    retrieval, semantics, mean = flat(run.retrieval), flat(run.semantics), tables.headline(run.semantics)
    if run.retrieval:
        split = scores["split"] = headline_split(run.retrieval)
        for (suffix, protocol), (short, direction), recall in product(PROTOCOLS, DIRECTIONS, ("r1", "r10")):
            scores[f"{short}_{recall}{suffix}"] = retrieval.get(f"{split}.{protocol}.{direction}.{recall}")
    scores["sts"] = mean and mean[1]
    scores["stsb"] = semantics.get("STSBenchmark.cosine.pearson")
    scores["sick"] = semantics.get("SICKRelatedness.cosine.pearson")
    scores["seven"] = mean_of_seven(run.semantics)
    return {name: value for name, value in scores.items() if is_number(value) or isinstance(value, str)}


def is_precomputed(features: Mapping[str, Any]) -> bool:
    """Return whether the features were computed elsewhere."""
    return "precomputed" in f"{features.get('origin', '')} {features.get('weights', '')}".lower()


def origin(features: Mapping[str, Any]) -> str:
    """Return the recorded origin of precomputed features, without hashes."""
    words = str(features.get("origin") or "of unknown origin").removeprefix("precomputed").lstrip(": ")
    words = re.sub(r" \(sha256 [0-9a-f]{64}\)", "", words)
    return (words or "of unknown origin").rstrip(".") + "."


def why_no_pictures(run: RunNumbers, gallery: Gallery) -> str:
    """Return the reason why the gallery shows text instead of some pictures."""
    total = gallery.with_thumbnails + gallery.without_thumbnails
    share = "none" if not gallery.with_thumbnails else f"{gallery.with_thumbnails} of the {total}"
    precomputed = "the features came precomputed, without pictures"
    why = precomputed if is_precomputed(run.features) else "the others were not resized"
    rest = "ids and captions replace the others"
    return f"The resized pictures include {share} of the gallery's pictures ({why}); {rest}."


def _reasons(counts: Mapping[str, int], kind: str) -> str:
    """Return a summary such as ``3 pictures (1 empty, 2 truncated)``."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
    return f"{counted(sum(counts.values()), kind)} ({reasons})"
