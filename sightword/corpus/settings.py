"""The section ``corpus`` of the parameters: what every format has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from pydantic import Field, field_validator, model_validator

from sightword.errors import CorpusError
from sightword.messages import quote
from sightword.settings import Settings

if TYPE_CHECKING:
    from sightword.corpus.listing import Listing
    from sightword.corpus.records import Caption, Image


FORMATS = {
    "sample": "sightword.corpus.settings:Sample",
    "flickr8k": "sightword.corpus.flickr8k:Flickr8k",
    "karpathy": "sightword.corpus.coco:Karpathy",
    "coco": "sightword.corpus.coco:Coco",
    "multi30k": "sightword.corpus.flickr8k:Multi30k",
    "table": "sightword.corpus.table:Listed",
    "shards": "sightword.corpus.shards:Shards",
}
"""The class of each format, ``module:class``: settings, files and reader, below :class:`CorpusSettings`."""


LISTS = Path(__file__).parent / "lists"
"""The folder of lists of pictures in git."""


class CorpusSettings(Settings):
    """Which corpus is read, from where, and what is asked of it. ``format`` decides which other keys there are."""

    format: str = "flickr8k"
    """How the corpus is laid out; ``data/raw/README.md`` lists the files of each format."""

    path: str = Field("data/raw/flickr8k", min_length=1)
    """The folder that holds the corpus. For the sample, the description of its scenes."""

    pictures: str = Field("data/raw/flickr8k/images", min_length=1)
    """The folder of pictures, in ``path``, or a plain ``.tar`` of them, or the listing ``.csv`` of a bucket; for the
    sample, which draws them, ``data/corpus/pictures``."""

    require_pictures: bool = True
    """Whether a caption needs its picture's file: if so, names without a file are dropped and reported; if not, for
    precomputed features, they stay."""

    beside: str = Field("data/raw/captions", min_length=1)
    """The folder of captions of pictures that are not in the corpus, for ``train.beside_batch``."""

    beside_files: str = ""
    """Which files in ``beside`` hold such captions, a pattern such as ``task2/*.en.gz``; empty: none. Line n of
    ``NAME.1.txt``, ``NAME.2.txt`` and so on are captions of one picture, which line n of ``NAME_images.txt``, if there,
    names. Pictures of the corpus, of any split, are left out: names that begin with the same number before ``_`` or
    ``.``, such as ``12_a.jpg`` and ``12.jpg``, are one picture. So are captions whose words are those of a caption of
    dev, test or the sealed split."""

    beside_without: str | None = None
    """A list of names in ``sightword/corpus/lists``, such as multi30k-benchmarks, whose captions are left out of
    ``beside``; null leaves none out."""

    seal: int = Field(0, ge=0, le=10_000_000)
    """How many training pictures, drawn by a hash of their ids, make the split ``sealed``, which only
    ``retrieval.split: sealed`` reads, for one last scoring."""

    draws_pictures: ClassVar[bool] = False
    """Whether the stage draws the pictures, so that they lie outside of ``path``."""

    @classmethod
    def kinds(cls) -> Mapping[str, type[Settings]]:
        """The settings of each format."""
        return {name: resolve_name(place) for name, place in FORMATS.items()}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> type[Settings]:
        """Return the class of a format, whose module alone is imported."""
        place = FORMATS.get(str(values.get("format")))
        return cast("type[Settings]", resolve_name(place)) if place else cls

    def __new__(cls, **values: Any) -> Self:
        """Return the settings of the format, a class below this one."""
        return super().__new__(
            cast("type[Self]", cls.of({"format": "flickr8k", **values}) if cls is CorpusSettings else cls)
        )

    @model_validator(mode="before")
    @classmethod
    def _known(cls, values: Any) -> Any:
        if cls is CorpusSettings and isinstance(values, dict):
            known = ", ".join(cls.kinds())
            raise ValueError(f"format is {quote(values.get('format'))}; expected one of {known}")
        return values

    @model_validator(mode="after")
    def _pictures_within_path(self) -> CorpusSettings:
        if not self.draws_pictures and not within(self.pictures, self.path):
            raise ValueError(
                f"pictures ({self.pictures}) must lie in path ({self.path}), so that DVC sees when a picture comes or "
                "goes; put the captions and the folder of pictures into one folder, and name that one as path"
            )
        return self

    @field_validator("beside_files")
    @classmethod
    def _inside(cls, pattern: str) -> str:
        if pattern and not within(pattern, "."):
            raise ValueError(f"{quote(pattern)} leaves the folder corpus.beside")
        parts = PurePosixPath(pattern).parts
        if pattern and (not parts or any("**" in part and part != "**" for part in parts)):
            raise ValueError(f"{quote(pattern)} is no pattern of files; expected one such as task2/*.en.gz")
        return pattern

    @field_validator("beside_without")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        return check_list(name)

    @property
    def folder(self) -> Path:
        """The folder of the corpus."""
        return Path(self.path)

    def files(self) -> list[str]:
        """Return the files that the format needs, relative to the corpus's folder.

        Raises:
            CorpusError: the folder does not show which file is meant.
        """
        raise NotImplementedError

    def listing(self) -> Listing | None:
        """List the files of pictures; None without a folder of pictures, if none is required.

        Raises:
            CorpusError: the folder is missing or cannot be read.
        """
        from sightword.corpus.listing import list_pictures

        return list_pictures(self.pictures, required=self.require_pictures)

    def read(self, listing: Listing | None, /) -> tuple[Sequence[Image], Sequence[Caption]]:
        """Read the pictures and captions of the corpus.

        Args:
            listing: the picture files; None without a folder of pictures.

        Raises:
            CorpusError: a file is missing, or does not follow the format.
            FileFormatError: a file is damaged.
        """
        raise NotImplementedError


class NoSplitError(CorpusError):
    """A corpus names no split, and none is drawn."""


class Drawn(CorpusSettings):
    """A format whose files may name no splits; the stage then draws dev and test from the pictures of training."""

    draw_dev: float = Field(0.0, ge=0, lt=1)
    """The share of pictures that become dev where the corpus names no dev, drawn by a hash of their ids; 0 draws
    none. Captions of one picture stay together, and so do pictures of equal bytes."""

    draw_test: float = Field(0.0, ge=0, lt=1)
    """The same for test."""

    @model_validator(mode="after")
    def _some_are_left(self) -> Self:
        if self.draw_dev + self.draw_test >= 1:
            raise ValueError("draw_dev and draw_test leave nothing for training: their sum must be below 1")
        return self

    def undrawn(self, where: object) -> str:
        """Return ``train``, the split of all pictures before the draw; NoSplitError if nothing shall be drawn."""
        if not self.draw_dev and not self.draw_test:
            todo = "Set corpus.draw_dev and corpus.draw_test, such as 0.1 each, to have them drawn."
            expected = "a column split, or files named by splits, such as train.parquet"
            raise NoSplitError("names no split", where=where, expected=expected, todo=todo)
        return "train"


class Sample(CorpusSettings):
    """Scenes drawn from a description; the stage draws them, and has nothing to read."""

    format: Literal["sample"] = "sample"
    """Scenes drawn from a description."""
    path: str = "data/raw/sample"
    """The folder with the description ``scenes.yaml``."""
    pictures: str = "data/corpus/pictures"
    """The folder that the stage draws the pictures into."""
    draws_pictures: ClassVar[bool] = True

    def files(self) -> list[str]:
        """Return the description."""
        return ["scenes.yaml"]


def check_list(name: str | None) -> str | None:
    """Return the name of a list of pictures in git, or None; ValueError if there is no such list."""
    lists = sorted(path.stem for path in LISTS.glob("*.txt"))
    if name is not None and name not in lists:
        raise ValueError(f"there is no list {quote(name)}; expected one of {', '.join(lists)}, or null")
    return name


def read_list(name: str) -> frozenset[str]:
    """Return the names of a list of pictures in git."""
    return frozenset((LISTS / f"{name}.txt").read_text(encoding="utf-8").split())


def within(inner: str, outer: str) -> bool:
    """Return whether a path is another one or lies below it, without ``..``."""
    return PurePosixPath(inner).is_relative_to(PurePosixPath(outer)) and ".." not in PurePosixPath(inner).parts
