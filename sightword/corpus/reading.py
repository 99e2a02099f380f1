"""The way from a published corpus to clean records."""

from __future__ import annotations

from sightword.corpus.beside import with_beside
from sightword.corpus.cleaning import clean
from sightword.corpus.drawing import Drawn, draw
from sightword.corpus.records import Corpus
from sightword.corpus.sealing import seal
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError


def read_corpus(settings: CorpusSettings) -> Corpus:
    """Read a published corpus; :mod:`sightword.corpus.sample` generates the sample.

    Raises:
        CorpusError: the corpus is missing, has another format, or contradicts itself.
        FileFormatError: a file is missing, damaged or of another format.
    """
    path = settings.folder
    if not path.is_dir():
        todo = "Put the corpus there (data/raw/README.md lists the files), or correct corpus.path."
        raise CorpusError("is not a folder" if path.exists() else "does not exist", where=path, todo=todo)
    listing = settings.listing()
    images, captions = settings.read(listing)
    corpus = clean(images, captions, listing, require_pictures=settings.require_pictures)
    if isinstance(settings, Drawn):
        corpus = draw(corpus, settings, listing)
    return with_beside(seal(corpus, settings.seal), settings, images)
