"""The sections of the report page: what they say, and in which order their tables and drawings stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from sightword.evaluation import ledger
from sightword.report import html_page as html
from sightword.report import number_formats
from sightword.report.drawing import Drawing
from sightword.report.gallery import evenly
from sightword.report.number_formats import count
from sightword.vse.page import notes, retrieval_table, semantics_table, story
from sightword.vse.page.chain import Made, Source
from sightword.vse.page.content import Content
from sightword.vse.page.sentence_pairs import worst_table

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
_COMPOSITION = (
    "Colours, shapes and the background of each picture are known. A query is composed of the embeddings of two "
    "attributes, such as <q>red</q> and <q>in the snow</q>, and each picture with both is right: {} pairs of "
    "attributes that occur together."
)
_LENGTHS = (
    "The {} pairs of captions of one picture with the largest difference in words, of {} pictures. Each caption is a "
    "query for its picture among all pictures of the split, and the shorter one also for the longer one among all "
    "other captions. A short caption leaves more out: an order takes what is left out for abstraction, a symmetric "
    "similarity for a difference."
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
_FIGURE_2 = (
    "How recall depends on cell and size (Figure 2 of Merkx &amp; Frank 2019) takes several training runs; "
    "<code>sightword experiments</code> compares them."
)
_COMPOSED_AND_ABSTRACT = (
    "In an order, the elementwise {} of two embeddings has what either of them has, and the {} what they have in "
    "common (Figure 4 of Vendrov et al. 2016). Below are the nearest pictures of both, without the pictures asked "
    "about. A hash chose the pictures, and the captions among the shortest tenth."
)
_CHAIN = (
    "The parameters named in the page's input files, and the first 12 digits of the files' SHA-256 hashes; a click "
    "shows the rest. The commands show the full history back to raw data: commit, code, machine, versions."
)


class History:
    """What the tables and drawings of the page were made from."""

    def __init__(self, made: Mapping[str, Made]) -> None:
        """Take all tables and drawings that a page may have, by key."""
        self._made, self._shown = made, set[str]()

    @property
    def shown(self) -> dict[str, Made]:
        """The tables and drawings that were asked for, in their order."""
        return {key: one for key, one in self._made.items() if key in self._shown}

    def of(self, *keys: str) -> Markup | None:
        """Return the commands that show the history of tables and drawings that the page shows."""
        known = [key for key in keys if key in self._made]
        self._shown.update(known)
        return html.source(*((self._made[key].command, f"made-{key}") for key in known))


def gallery(shown: Content, history: History) -> html.Section | None:
    """Return captions with their pictures, and pictures with their captions."""
    found = shown.gallery
    if not (found.captions or found.pictures):
        return None
    examples = evenly(found.captions, EXAMPLES)
    answered = [html.part("answered", one, found.depth, template=_MACROS) for one in examples]
    more = [html.part("answered", one, found.depth, template=_MACROS) for one in found.captions if one not in examples]
    pictures = [html.part("described", one, found.depth, template=_MACROS) for one in found.pictures]
    why = html.text("{}", notes.why_no_pictures(shown.run, found), style="none") if found.without_thumbnails else None
    return html.Section(
        "gallery",
        "Gallery",
        [
            html.text(_GALLERY, found.split, found.depth, found.depth),
            why,
            *answered,
            html.fold(f"More captions and their retrieved pictures ({len(more)})", *more) if more else None,
            html.fold(f"Pictures and their retrieved captions ({len(pictures)})", html.beside(*pictures))
            if pictures
            else None,
            history.of("gallery"),
        ],
    )


def retrieval(shown: Content, drawn: Mapping[str, Drawing], history: History) -> html.Section:
    """Return the tables of recall, of composed queries, and of short and long captions."""
    scores, published = shown.run.retrieval, shown.settings.published
    found = retrieval_table.tables(scores, shown.captions.each, with_published=published)
    parts: html.Parts = [html.text(_RETRIEVAL), html.text(_PUBLISHED) if published else None]
    for (split, protocol), every in found.items():
        parts += [html.heading("{}: {}", split, protocol), html.beside(*map(html.table, every))]
    parts += [_scorings(shown, pictures=True)]
    parts.append(history.of("retrieval") if found else html.text("This run has no retrieval scores.", style="none"))
    for split, table in retrieval_table.across_languages(scores).items():
        parts += [html.heading("{}: captions across languages", split), html.table(table)]
    for one in retrieval_table.compositions(scores, str(shown.run.description.get("similarity", "cosine"))):
        parts.append(html.heading("{}: two attributes as one query", one.split))
        parts += [html.text(_COMPOSITION, count(one.queries)), html.table(one.table), history.of("composition")]
    if lengths := shown.lengths:
        parts += [
            html.heading("Short and long captions (as Figure 3 of Vendrov et al. 2016)"),
            html.text(_LENGTHS, count(lengths.entry["pairs"]), count(lengths.entry["pictures"])),
            html.beside(html.table(lengths.table), html.figure(drawn.get("lengths"))),
            html.fold(
                f"Pairs with the largest difference in words ({len(lengths.pairs.rows)})", html.table(lengths.pairs)
            ),
            history.of("lengths"),
        ]
    return html.Section("retrieval", "Retrieval", parts)


def semantics(shown: Content, drawn: Mapping[str, Drawing], history: History) -> html.Section:
    """Return the tables of correlations and of accuracies, the drawings, and the largest errors."""
    correlations, accuracies = (
        make(shown.run.semantics) for make in (semantics_table.correlations, semantics_table.accuracies)
    )
    parts: html.Parts = [html.text("This run has no scores of sentence similarity.", style="none")]
    if correlations:
        parts = [html.text(_SEMANTICS), html.table(correlations)]
    if accuracies:
        parts += [html.text(_ACCURACIES, style="apart"), html.table(accuracies)]
    if correlations or accuracies:
        parts += [
            html.text(_CONTROLS) if shown.run.semantics.get("controls") else None,
            _scorings(shown, pictures=False),
            history.of("semantics"),
        ]
    parts.append(html.block(*_pair_drawings(shown, drawn, history), style="balanced"))
    if worst := shown.pairs.worst:
        listed = html.text(_WORST), html.table(worst_table(worst)), history.of("worst")
        parts.append(html.fold(f"Largest errors ({len(worst)})", *listed, style="fold apart"))
    return html.Section("semantics", "Sentence similarity", parts)


def _scorings(shown: Content, *, pictures: bool) -> Markup | None:
    """Return how often the splits of pictures, or of all other tasks, were scored; None without a known scoring."""
    counts = {key: one for key, one in shown.scorings.items() if (key[1] == ledger.PICTURES) is pictures}
    return html.scorings(ledger.in_words(counts))


def _pair_drawings(shown: Content, drawn: Mapping[str, Drawing], history: History) -> list[Markup]:
    pairs, found = shown.pairs, []
    if "sts" in drawn:
        found.append(html.block(html.heading("Pearson's r of each set"), html.figure(drawn["sts"])))
    if "systems" in drawn:
        head = html.heading("Comparison with published systems (as Figure 3 of Merkx &amp; Frank 2019)")
        words = html.text(
            "Their scores as printed in the supplement of the paper, with intervals computed from their numbers of "
            "pairs."
        )
        found.append(html.block(head, words, html.figure(drawn["systems"]), history.of("systems")))
    if "scatter" in drawn:
        points, total = sum(len(panel.gold) for panel in pairs.panels), sum(panel.pairs for panel in pairs.panels)
        said = (
            'Each dot is a pair of sentences, <span class="swatch">orange</span> if one of them is a training caption; '
        )
        said += "r is over all pairs of a data set."
        if points < total:
            said += f" The plots show {count(points)} of {count(total)} pairs, chosen by a hash."
        if pairs.others:
            said += f" The table above has {pairs.others} more data sets than these {len(pairs.panels)}."
        head = html.heading("Cosine vs human score")
        found.append(html.block(head, html.text(said), html.figure(drawn["scatter"]), history.of("pairs")))
    if "breakdown" in drawn:
        head = html.heading("Disagreement by length and by shared words")
        words = html.text(_BREAKDOWN, number_formats.FEW)
        found.append(html.block(head, words, html.figure(drawn["breakdown"]), history.of("breakdown")))
    return found


def training(shown: Content, curves: Sequence[tuple[str, Drawing]], history: History) -> html.Section:
    """Return the curves of the training run."""
    parts: html.Parts = [html.text("This run has no training curves.", style="none")]
    if curves:
        parts = [html.text("Ticks at the lower edge: the kept snapshots. Dashed: the snapshots in the encoder.")]
        parts += [html.beside(*(html.figure(drawing, caption) for caption, drawing in curves))]
    parts += [history.of("loss", "learning_rate", "recall", "epochs"), html.text(_FIGURE_2)]
    if shown.attended is None:
        why = story.without_attention(shown.run.training, "beside" in shown.run.select)
        parts.append(html.text("This encoder {}, so it has no attention weights to show.", why))
    return html.Section("curves", "Training", parts)


def regularities(shown: Content, history: History) -> html.Section | None:
    """Return what order-embeddings compose and abstract."""
    if not (found := shown.regularities):
        return None
    examples = [html.part("regularity", one, template=_MACROS) for one in found.examples]
    words = html.text(_COMPOSED_AND_ABSTRACT, found.composing, found.abstracting)
    parts = [words, *examples, history.of("regularities")]
    return html.Section("regularities", "Composition and abstraction", parts, menu="Composition")


def attention(shown: Content, history: History) -> html.Section | None:
    """Return captions with the weights of their tokens."""
    if not shown.attended:
        return None
    share = f"the share of each {shown.run.unit}, as a mean over all features and over the snapshots."
    captions = [html.part("weights", one) for one in shown.attended]
    words = html.part("scale", f"The encoder's attention in a caption: {share}")
    return html.Section("attention", "Attention", [words, *captions, history.of("attention")])


def chain(shown: Content, sources: Sequence[Source], history: History) -> html.Section:
    """Return the sources of each table and drawing, with hashes and commands."""
    remarks = [html.text("<strong>{}.</strong> {}", one.head, one.text) for one in notes.remarks(shown.run)]
    listed = html.part("sources", sources, template=_MACROS), html.part("made", history.shown, template=_MACROS)
    folded = html.fold("Files and hashes of each table", html.text(_CHAIN), *listed)
    return html.Section("chain", "How it was made", [*remarks, folded])


def parameters(shown: Content) -> html.Section:
    """Return the parameters and results of each stage."""
    return html.Section("parameters", "Parameters", [html.facts(story.facts(shown.run))])
