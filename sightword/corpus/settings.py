"""The section ``corpus`` of the parameters."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field, model_validator

from sightword.settings import Settings


class CorpusSettings(Settings):
    """Which corpus is read, from where, and what is asked of it."""

    format: Literal["sample", "flickr8k", "karpathy", "coco", "table"] = "flickr8k"
    """How the corpus is laid out: ``flickr8k`` (Flickr8k.token.txt and three lists of names), ``karpathy``
    (dataset_*.json), ``coco`` (captions_*.json), ``table`` (CSV or Parquet with image, caption, split), or
    ``sample`` (scenes drawn from a description)."""

    path: str = Field("data/raw/flickr8k", min_length=1)
    """The folder that holds the corpus: all that is read lies in it, so that DVC sees each change. For the sample, the
    description of its scenes."""

    file: str | None = Field(None, min_length=1)
    """``karpathy`` and ``table`` only: the name of the file in ``path``, where it is not the only ``dataset_*.json``,
    ``*.csv`` or ``*.parquet`` there."""

    pictures: str = Field("data/raw/flickr8k/images", min_length=1)
    """The folder of pictures, in ``path``; for the sample, which draws them, ``data/corpus/pictures``."""

    require_pictures: bool = True
    """Whether a caption needs its picture's file: if so, names without a file are dropped and reported; if not (the
    features come precomputed), they stay, without a path."""

    text: Literal["raw", "tokens"] = "raw"
    """Karpathy's JSON only. ``raw``: the caption as it was written; ``tokens``: its tokens joined by single spaces,
    with a full stop as the last one (Merkx & Frank 2019 for COCO)."""

    restval: Literal["train", "none"] = "train"
    """Karpathy's JSON for COCO only: its 30,504 pictures of the set ``restval`` are for training (Merkx & Frank,
    order-embeddings, and VSE++ with its flag), or in no split (VSE++'s code without the flag)."""

    coco_train: list[str] = Field(["captions_train2014.json"])
    """COCO's own JSON only: the files, below ``path``, whose pictures are for training."""

    coco_dev: list[str] = Field(["captions_val2014.json"])
    """COCO's own JSON only: the files for choosing."""

    coco_test: list[str] = Field([])
    """COCO's own JSON only: the files for testing (the captions of COCO's own test pictures are not public)."""

    @model_validator(mode="after")
    def _pictures_within_path(self) -> CorpusSettings:
        if self.format != "sample" and not _within(self.pictures, self.path):
            raise ValueError(
                f"pictures ({self.pictures}) must lie in path ({self.path}), so that DVC sees when a picture comes or "
                "goes; put the captions and the folder of pictures into one folder, and name that one as path"
            )
        return self


def _within(inner: str, outer: str) -> bool:
    return PurePosixPath(inner).is_relative_to(PurePosixPath(outer)) and ".." not in PurePosixPath(inner).parts
