"""The formats of a corpus by name, and the way from a published corpus to clean records.

A format is a class below :class:`~sightword.corpus.settings.CorpusSettings`, in a module of its own: its settings, its
files, and its reader.
"""

from __future__ import annotations

from sightword.corpus.coco import Coco
from sightword.corpus.flickr8k import Flickr8k
from sightword.corpus.karpathy import Karpathy
from sightword.corpus.listing import list_pictures
from sightword.corpus.records import Corpus, clean
from sightword.corpus.sample.settings import Sample
from sightword.corpus.settings import CorpusSettings
from sightword.corpus.table import Listed
from sightword.errors import CorpusError

FORMATS: dict[str, type[CorpusSettings]] = {
    "sample": Sample,
    "flickr8k": Flickr8k,
    "karpathy": Karpathy,
    "coco": Coco,
    "table": Listed,
}


def read_corpus(settings: CorpusSettings) -> Corpus:
    """Read a published corpus; :mod:`sightword.corpus.sample` generates the sample.

    Raises:
        CorpusError: the corpus is missing, has another format, or contradicts itself.
        FileFormatError: a file is missing, damaged or of another format.
    """
    path = settings.folder
    if not path.is_dir():
        todo = "Put the corpus there (see data/README.md), or correct corpus.path, the folder of the corpus."
        raise CorpusError("is not a folder" if path.exists() else "does not exist", where=path, todo=todo)
    listing = list_pictures(settings.pictures, required=settings.require_pictures)
    images, captions = settings.read(listing)
    return clean(images, captions, listing, require_pictures=settings.require_pictures)
