"""The section ``pairs`` of ``entailment/params.yaml``."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal, Self

from pydantic import Field, model_validator

from sightword.settings import Settings

PARTS = {
    "snli": ("train", "dev", "test"),
    "multinli": ("train", "matched", "mismatched"),
    "sick": ("train", "dev", "test"),
    "sample": ("train", "dev", "test"),
}
"""The parts of each format; a table has none."""


class Source(Settings):
    """One source of labelled pairs."""

    format: Literal["snli", "multinli", "sick", "table", "sample"]
    """``snli``: a folder with ``snli_1.0_*.jsonl``, ``snli_1.0_*.txt``, or SentEval's ``labels.*``, ``s1.*``, ``s2.*``
    (the first of them that is there); ``multinli``: a folder with ``multinli_1.0_*.jsonl``; ``sick``: a folder with
    SICK's files; ``table``: a .csv, .tsv or .jsonl file; ``sample``: pairs of the sample's own grammar."""
    path: str
    """The folder or the file."""
    part: str = ""
    """``train``, ``dev`` or ``test``; of ``multinli`` ``train``, ``matched`` or ``mismatched``; of ``table`` none."""
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
        parts = PARTS.get(self.format, ("",))
        if self.part not in parts:
            raise ValueError(f"part is {self.part!r}; {self.format} has {', '.join(map(repr, parts))}")
        if (self.format == "sample") != (self.count is not None):
            raise ValueError("count is given for the format sample, and for no other")
        return self


def _snli(part: str) -> list[Source]:
    return [Source(format="snli", path="data/raw/senteval/downstream/SNLI", part=part)]


class SentencePairsSettings(Settings):
    """The sources of the labelled sentence pairs, and dev held out by premise; defaults as Vendrov et al. (2016)."""

    folder: str = "data/raw/senteval/downstream/SNLI"
    """A folder that DVC watches: the path of each source is in it or in ``tables``."""
    tables: str = "data/raw/entailment"
    """Another folder that DVC watches, for tables and for corpora of one's own."""
    train: list[Source] = Field(default=_snli("train"), min_length=1)
    """The sources of training, joined in this order."""
    dev: list[Source] = _snli("dev")
    """The sources of dev; empty with ``hold_out``."""
    test: list[Source] = Field(default=_snli("test"), min_length=1)
    """The sources of test."""
    hold_out: int = Field(0, ge=0)
    """Pairs of dev that are held out of training, whole premises in the order of their hashes, so that no premise is on
    both sides; 0 reads ``dev``."""
    undecided: Literal["drop", "not_entailed"] = "drop"
    """Pairs on whose label the annotators did not agree: left out, or kept in all splits as not entailed (released
    code)."""
    size: int | None = Field(default=None, ge=2)
    """Training pairs that are kept, the first by the hash of the pair, for a learning curve; null keeps all."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if bool(self.dev) == bool(self.hold_out):
            raise ValueError("dev has sources, or hold_out is above 0: one of both")
        roots = [PurePosixPath(self.folder), PurePosixPath(self.tables)]
        for source in (*self.train, *self.dev, *self.test):
            if not any(PurePosixPath(source.path).is_relative_to(root) for root in roots):
                raise ValueError(
                    f"the source {source.path} is neither in folder ({roots[0]}) nor in tables ({roots[1]})"
                )
        return self
