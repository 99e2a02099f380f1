"""Writes the report page, its drawings as files, and the numbers that sum up the run."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

from sightword.io.files import atomic_folder, write_text
from sightword.report import (
    attention,
    chain,
    curves,
    gallery,
    html_page,
    lengths,
    notes,
    number_formats,
    plots,
    regularities,
    retrieval_table,
    semantics_table,
    sentence_pairs,
    story,
)
from sightword.report.drawing import Drawing
from sightword.report.inputs import Run, RunFiles, read_run
from sightword.report.settings import ReportSettings
from sightword.report.summary import summary

PLACED = ("lengths", "sts", "systems", "scatter", "breakdown")
"""The drawings with a fixed place in ``page.html``; all others are curves."""
EXAMPLES = 4
"""The number of captions of the gallery to show at once; the others are folded."""


class Written(NamedTuple):
    """The page's size in bytes, the number of thumbnails, the heads of serious warnings, and the summary of the run."""

    size: int
    pictures: int
    notes: list[str]
    summary: dict[str, float | str]


def write(files: RunFiles, settings: ReportSettings, path: Path, plots_folder: Path | None = None) -> Written:
    """Read a run and write its page at ``path``.

    The folder ``plots_folder`` is replaced by one with the drawings as SVG and PNG files; None writes no files.

    Raises:
        FileFormatError: one of the run's files is missing, damaged, or of another form.
        EncoderError: the encoder is damaged.
        ReportError: a picture cannot be shown.
    """
    run = read_run(files)
    top = gallery.read_top(files.top)
    captions = gallery.read_captions(files.captions, sorted({*top["split"], *run.retrieval}))
    shown = gallery.build(top, captions, files.resized, number=settings.gallery, thumbnail=settings.thumbnail)
    pairs = sentence_pairs.read(
        files.pairs,
        files.plots / "semantics",
        points=settings.points,
        worst=settings.worst,
        with_published=settings.published,
    )
    attended = attention.attend_with(files.encoder, gallery.some_texts(captions, shown, settings.attention))
    retrieval = retrieval_table.tables(run.retrieval, captions.each, with_published=settings.published)
    semantics, accuracies = semantics_table.groups(run.semantics), semantics_table.accuracies(run.semantics)
    composed = regularities.read(files, captions, number=settings.regularities, thumbnail=settings.thumbnail)
    of_lengths = lengths.read(files.top.with_name("lengths.parquet"), run.retrieval, captions)
    warnings = notes.notes(run, shown)
    drawings = _drawings(run, pairs, of_lengths)
    inline = {drawing.name: html_page.inline(drawing) for _, drawing in drawings}
    contents: dict[str, object] = {
        "retrieval": run.retrieval,
        "composition": any("composition" in body for body in run.retrieval.values()),
        "lengths": of_lengths,
        "regularities": composed,
        "semantics": semantics or accuracies,
        "systems": pairs.systems,
        "pairs": pairs.panels,
        "breakdown": pairs.bins,
        "worst": pairs.worst,
        "gallery": shown.captions or shown.pictures,
        "attention": attended,
    }
    text = html_page.render(
        "sightword.report",
        title=settings.title,
        notes=warnings,
        remarks=notes.remarks(run),
        headlines=story.headlines(run, captions.each),
        story=story.story(run),
        retrieval=[
            (*key, list(tables)) for key, tables in itertools.groupby(retrieval, lambda one: (one.split, one.protocol))
        ],
        published=settings.published,
        compositions=retrieval_table.compositions(run.retrieval, str(run.description.get("similarity", "cosine"))),
        lengths=of_lengths,
        regularities=composed,
        semantics=semantics,
        accuracies=accuracies,
        pairs=pairs,
        few=number_formats.FEW,
        points=sum(len(panel.gold) for panel in pairs.panels),
        drawn={name: inline.get(name, "") for name in PLACED},
        curves=[(caption, inline[drawing.name]) for caption, drawing in drawings if drawing.name not in PLACED],
        gallery=shown,
        examples=gallery.evenly(shown.captions, EXAMPLES),
        why_no_pictures=notes.why_no_pictures(run, shown) if shown.without_thumbnails else "",
        attended=attended,
        reads=story.without_attention(run.training, "beside" in run.select),
        unit=run.unit,
        facts=story.facts(run),
        sources=chain.sources(files, run),
        made={one.key: one for one in chain.made(files, run) if contents.get(one.key, True)},
    )
    if plots_folder is not None:
        with atomic_folder(plots_folder) as folder:
            for _, drawing in drawings:
                (folder / f"{drawing.name}.svg").write_text(drawing.svg(), "utf-8")
                (folder / f"{drawing.name}.png").write_bytes(drawing.png())
    write_text(path, text)
    serious = [note.head for note in warnings if note.serious]
    return Written(len(text.encode()), shown.with_thumbnails, serious, summary(run))


def _drawings(
    run: Run, pairs: sentence_pairs.SentencePairs, of_lengths: lengths.Lengths | None
) -> list[tuple[str, Drawing]]:
    """Return every drawing for which the run has numbers, with its caption."""
    rows = semantics_table.intervals(run.semantics)
    # The table has the numbers, so the text for screen readers has none.
    title = f"Pearson r of {len(rows)} sets of sentence pairs with 95 % intervals; the numbers are in the table."
    found = [plots.ranks("lengths", of_lengths.ranks)] if of_lengths else []
    found += [plots.intervals("sts", rows, title=title)] if rows else []
    found += [plots.systems(pairs.systems)] if pairs.systems else []
    found += [plots.scatter(pairs.panels)] if pairs.panels else []
    found += [plots.breakdown(pairs.bins)] if pairs.bins else []
    return [("", drawing) for drawing in found] + curves.draw(run)
