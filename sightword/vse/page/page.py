"""Writes the report page, its drawings as files, and the numbers that sum up the run."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sightword.io.files import atomic_folder, write_text
from sightword.report import html_page
from sightword.report.drawing import Drawing
from sightword.report.inputs import RunFiles
from sightword.vse.page import chain, content, curves, plots, sections, semantics_table, story
from sightword.vse.page.content import Content
from sightword.vse.page.settings import ReportSettings
from sightword.vse.page.summary import summary


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
    shown = content.read(files, settings)
    fixed, curved = _drawings(shown), curves.draw(shown.run)
    text = _render(shown, fixed, curved)
    if plots_folder is not None:
        with atomic_folder(plots_folder) as folder:
            for drawing in (*fixed.values(), *(one for _, one in curved)):
                (folder / f"{drawing.name}.svg").write_text(drawing.svg(), "utf-8")
                (folder / f"{drawing.name}.png").write_bytes(drawing.png())
    write_text(path, text)
    serious = [note.head for note in shown.notes if note.serious]
    return Written(len(text.encode()), shown.gallery.with_thumbnails, serious, summary(shown.run))


def _render(shown: Content, fixed: dict[str, Drawing], curved: list[tuple[str, Drawing]]) -> str:
    history = sections.History({one.key: one for one in chain.made(shown.files, shown.run)})
    return html_page.render(
        shown.settings.title,
        [
            sections.gallery(shown, history),
            sections.retrieval(shown, fixed, history),
            sections.semantics(shown, fixed, history),
            sections.training(shown, curved, history),
            sections.regularities(shown, history),
            sections.attention(shown, history),
            sections.chain(shown, chain.sources(shown.files, shown.run), history),
            sections.parameters(shown),
        ],
        top=html_page.text("{}", story.story(shown.run), style="story") + html_page.chips(*story.chips(shown.run)),
        footer=html_page.made_by("report"),
        notes=shown.notes,
        headlines=story.headlines(shown.run, shown.captions.each),
    )


def _drawings(shown: Content) -> dict[str, Drawing]:
    """Return by name each drawing, other than curves, for which the run has numbers."""
    pairs, rows = shown.pairs, semantics_table.intervals(shown.run.semantics)
    # The table has the numbers, so the text for screen readers has none.
    title = f"Pearson r of {len(rows)} sets of sentence pairs with 95 % intervals; the numbers are in the table."
    found = [plots.ranks("lengths", shown.lengths.ranks)] if shown.lengths else []
    found += [plots.intervals("sts", rows, title=title)] if rows else []
    found += [plots.systems(pairs.systems)] if pairs.systems else []
    found += [plots.scatter(pairs.panels)] if pairs.panels else []
    found += [plots.breakdown(pairs.bins)] if pairs.bins else []
    return {drawing.name: drawing for drawing in found}
