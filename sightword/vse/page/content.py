"""Reads the content of the page from the files of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sightword.evaluation import ledger
from sightword.evaluation.ledger import Count
from sightword.report import gallery
from sightword.report.gallery import Captions, Gallery
from sightword.report.html_page import Note
from sightword.report.inputs import RunFiles, RunNumbers, read_run
from sightword.vse.page import attention, lengths, notes, regularities, sentence_pairs
from sightword.vse.page.attention import Attended
from sightword.vse.page.lengths import Lengths
from sightword.vse.page.regularities import Regularities
from sightword.vse.page.sentence_pairs import SentencePairs
from sightword.vse.page.settings import ReportSettings


class Content(NamedTuple):
    """A run and its examples."""

    files: RunFiles
    settings: ReportSettings
    run: RunNumbers
    captions: Captions
    gallery: Gallery
    pairs: SentencePairs
    attended: list[Attended] | None
    """None for an encoder without attention."""
    regularities: Regularities | None
    lengths: Lengths | None
    notes: list[Note]
    scorings: Mapping[tuple[str, str], Count]
    """How often each split was scored on which this encoder was, by the ledger."""


def read(files: RunFiles, settings: ReportSettings) -> Content:
    """Read a run.

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
    composed = regularities.read(files, captions, number=settings.regularities, thumbnail=settings.thumbnail)
    of_lengths = lengths.read(files.top.with_name("lengths.parquet"), run.retrieval, captions)
    warnings = notes.notes(run, shown)
    scorings = ledger.of_encoder(ledger.read(files.metrics / ledger.FILE), ledger.hash_of(files.encoder))
    return Content(files, settings, run, captions, shown, pairs, attended, composed, of_lengths, warnings, scorings)
