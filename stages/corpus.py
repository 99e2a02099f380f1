"""Reads a published corpus, or draws the sample; writes ``data/corpus/``: ``images.parquet``, ``captions.parquet``,
``dropped.parquet``, ``drawn.parquet``, ``pictures/`` and ``senteval/`` (the last three are empty except for the
sample).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from sightword.corpus.settings import CorpusSettings
from sightword.errors import ParamsError
from sightword.io.files import atomic_folder, write_text

if TYPE_CHECKING:
    from sightword.corpus.records import Corpus

log = logging.getLogger(__name__)

SETTINGS = CorpusSettings

FOLDER = Path("data/corpus")
PICTURES = FOLDER / "pictures"


def work(settings: CorpusSettings) -> None:
    """Read a corpus (or draw the sample) into tables of pictures and captions."""
    from sightword.corpus.reading import read_corpus
    from sightword.corpus.records import report, write_tables

    corpus = None if settings.draws_pictures else read_corpus(settings)
    with atomic_folder(FOLDER) as folder:
        if corpus is None:
            corpus = _draw(settings, folder)
        else:
            for name, kind in (("pictures", "pictures"), ("senteval", "sentence pairs")):
                text = f"Empty: only the sample's {kind} are made by the stage corpus.\n"
                write_text(folder / name / "README.txt", text)
        write_tables(folder, corpus, settings.pictures)
    report("corpus", corpus)


def _draw(settings: CorpusSettings, folder: Path) -> Corpus:
    from sightword.corpus.reading import seal, with_beside
    from sightword.corpus.sample.drawing import make_sample
    from sightword.corpus.sample.scene import load_world
    from sightword.corpus.sample.sentences import write_senteval

    if Path(settings.pictures) != PICTURES:
        expected = f"{PICTURES} for the sample, whose pictures are drawn"
        raise ParamsError(f"corpus.pictures = {settings.pictures}", expected=expected)
    world = load_world(settings.path)
    (folder / PICTURES.name).mkdir()
    corpus = seal(make_sample(world, folder / PICTURES.name, progress=True), settings.seal)
    write_senteval(folder / "senteval", world)
    return with_beside(corpus, settings, corpus.images)
