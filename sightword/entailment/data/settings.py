"""The section ``pairs`` of ``entailment/params.yaml``."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal, Self

from pydantic import Field, model_validator

from sightword.settings import SPLITS, Settings


class Source(Settings):
    """One source of labelled pairs."""

    format: Literal["snli", "table", "sample"]
    """``snli``: a folder with ``snli_1.0_*.jsonl``, or with SentEval's ``labels.*``, ``s1.*`` and ``s2.*``; ``table``:
    a .csv, .tsv or .jsonl file; ``sample``: pairs of the sample's own grammar."""
    path: str
    """The folder or the file."""
    part: str = ""
    """``train``, ``dev`` or ``test``; of ``table`` none."""
    premises: Literal["all", "most", "tenth"] = "all"
    """``tenth``: the pairs whose premise, in lower case, has a sha256 divisible by ten; ``most``: the other pairs."""
    count: int | None = Field(default=None, ge=1)
    """Pairs that ``sample`` draws; of the other formats none."""

    @property
    def name(self) -> str:
        """The name by which metrics and pages call the source."""
        path = PurePosixPath(self.path)
        if self.format == "table":
            return f"{path.parent.name}/{path.stem}"
        return f"{'sample' if self.format == 'sample' else path.name} {self.part}"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        parts = ("",) if self.format == "table" else SPLITS
        if self.part not in parts:
            raise ValueError(f"part is {self.part!r}; {self.format} has {', '.join(map(repr, parts))}")
        if (self.format == "sample") != (self.count is not None):
            raise ValueError("count is given for the format sample, and for no other")
        return self


def _snli(part: str) -> list[Source]:
    return [Source(format="snli", path="data/raw/senteval/downstream/SNLI", part=part)]


class SentencePairsSettings(Settings):
    """The sources of the labelled sentence pairs; defaults as Vendrov et al. (2016)."""

    folder: str = "data/raw/senteval/downstream/SNLI"
    """A folder that DVC watches: the path of each source is in it or in ``tables``."""
    tables: str = "data/raw/entailment"
    """Another folder that DVC watches, for tables and for corpora of one's own."""
    train: list[Source] = Field(default=_snli("train"), min_length=1)
    """The sources of training, joined in this order."""
    dev: list[Source] = Field(default=_snli("dev"), min_length=1)
    """The sources of dev."""
    test: list[Source] = Field(default=_snli("test"), min_length=1)
    """The sources of test."""
    size: int | None = Field(default=None, ge=2)
    """Training pairs that are kept, the first by the hash of the pair, for a learning curve; null keeps all."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        roots = [PurePosixPath(self.folder), PurePosixPath(self.tables)]
        for source in (*self.train, *self.dev, *self.test):
            if not any(PurePosixPath(source.path).is_relative_to(root) for root in roots):
                raise ValueError(
                    f"the source {source.path} is neither in folder ({roots[0]}) nor in tables ({roots[1]})"
                )
        return self
