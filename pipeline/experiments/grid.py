"""The grid file: the parameters that a sweep varies, and their values."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, ValidationError, model_validator

from pipeline.pipelines import shipped
from sightword.errors import FileFormatError, ParamsError
from sightword.io import yaml_reader
from sightword.io.files import Pathish, read_text
from sightword.messages import quote
from sightword.settings import MAX_SEED, Settings, explain

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
LONGEST_NAME = 40
MOST_SEEDS = 1000
SEED = "train.seed"


def _check_values(values: Any) -> Any:
    """Refuse a value without brackets, which could mean itself or, if it is a list, its items; and a repeated value."""
    if not isinstance(values, list):
        expected = f"expected [{quote(values)}], or under `set` what is the same in all"
        raise ValueError(f"the values go in brackets ({expected})")
    for number, value in enumerate(values):
        # 1 and true are equal to Python, and no duplicates
        if any(value == other and type(value) is type(other) for other in values[:number]):
            raise ValueError(f"{quote(value)} stands there twice")
    return values


Values = Annotated[list[Any], BeforeValidator(_check_values), Field(min_length=1)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
Block = Annotated[dict[str, Values], Field(min_length=1)]


class Grid(Settings):
    """One sweep."""

    name: Annotated[str, StringConstraints(pattern=NAME, max_length=LONGEST_NAME)]
    """The beginning of the experiments' names; default: the file's name."""
    base: str | None = None
    """The recipe, or the file of parameters, that all experiments start from; default: ``params.yaml`` as it stands."""
    pipeline: str | None = None
    """The folder of the further pipeline whose ``params.yaml`` is the base, where no ``base`` is given."""
    set: dict[str, Any] = Field(default={})
    """Parameters that are the same in all experiments, and differ from the base."""
    blocks: Annotated[list[Block], Field(min_length=1)]
    """Each block: parameters, and the values of each; every combination within a block is one experiment."""
    seeds: Annotated[int, Field(ge=1, le=MOST_SEEDS)] | Annotated[list[Seed], Field(min_length=1)] | None = None
    """Values of ``train.seed`` for every combination, or how many, from 0; default: that of the base."""
    exclude: list[Annotated[dict[str, Any], Field(min_length=1)]] = Field(default=[])
    """Combinations to leave out: combinations that have all of these values."""

    @property
    def axes(self) -> list[dict[str, list[Any]]]:
        """The blocks, with the seeds as the last parameter of each."""
        if self.seeds is None:
            return self.blocks
        seeds = list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds
        return [{**block, SEED: seeds} for block in self.blocks]

    @property
    def size(self) -> int:
        """The number of combinations, before any is left out."""
        return sum(math.prod(map(len, block.values())) for block in self.axes)

    @model_validator(mode="after")
    def _refuse_doubles(self) -> Grid:
        blocks = {f"in blocks[{number}]": block for number, block in enumerate(self.blocks, start=1)}
        both = [(key, place) for place, block in blocks.items() for key in block if key in self.set]
        doubles = ["pipeline: the base names it already"] if self.base and self.pipeline else []
        doubles += [f"{key}: stands under `set` and {place}" for key, place in both]
        if self.seeds is not None:
            places = [place for place, keys in ({"under `set`": self.set} | blocks).items() if SEED in keys]
            doubles += [f"{SEED}: stands {place}, and `seeds` sets it too" for place in places]
        if doubles:
            raise ValueError("\n  ".join(doubles))
        return self


def load(path: Pathish) -> Grid:
    """Read a grid file and check its shape; ParamsError with all errors, one line each.

    Its parameters are checked by :func:`pipeline.experiments.plan.expand`.
    """
    todo = f"See {shipped() / 'recipes' / 'grid.yaml'} for one."
    text = read_text(path, todo=todo)
    try:
        values = yaml_reader.parse(text, path)
    except FileFormatError as error:
        raise ParamsError(error.what, where=error.where) from None
    if not isinstance(values, dict) or "blocks" not in values:
        raise ParamsError("is not a grid: it has no `blocks`", where=path, todo=todo)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(path).stem).strip("-_")[:LONGEST_NAME] or "sweep"
    try:
        return Grid.model_validate({"name": name, **values})
    except ValidationError as error:
        problems = dict.fromkeys(explain(Grid, item) for item in error.errors())
        raise ParamsError("\n  ".join(["is not a grid that can be run:", *problems]), where=path) from None
