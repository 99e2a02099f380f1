"""Reads a corpus of any published format and cleans it."""

from __future__ import annotations

from pathlib import Path

from sightword.corpus.coco import read_coco
from sightword.corpus.flickr8k import read_flickr8k
from sightword.corpus.karpathy import read_karpathy
from sightword.corpus.listing import list_pictures
from sightword.corpus.records import Corpus, clean
from sightword.corpus.settings import CorpusSettings
from sightword.corpus.table import read_table
from sightword.errors import CorpusError


def read_corpus(settings: CorpusSettings) -> Corpus:
    """Read a published corpus; :mod:`sightword.corpus.sample` generates the sample.

    Raises:
        CorpusError: the corpus is missing, has another format, or contradicts itself.
        FileFormatError: a file is missing, damaged or of another format.
        ParamsError: no file of COCO is listed, or one is listed twice.
    """
    path = Path(settings.path)
    if not path.is_dir():
        todo = "Put the corpus there (see data/README.md), or correct corpus.path, the folder of the corpus."
        raise CorpusError("is not a folder" if path.exists() else "does not exist", where=path, todo=todo)
    listing = list_pictures(settings.pictures, required=settings.require_pictures)
    if settings.format == "flickr8k":
        images, captions = read_flickr8k(path)
    elif settings.format == "karpathy":
        images, captions = read_karpathy(path, settings.file, settings.text, settings.restval)
    elif settings.format == "coco":
        files = {"train": settings.coco_train, "dev": settings.coco_dev, "test": settings.coco_test}
        images, captions = read_coco(path, files, listing)
    else:
        images, captions = read_table(path, settings.file)
    return clean(images, captions, listing, require_pictures=settings.require_pictures)
