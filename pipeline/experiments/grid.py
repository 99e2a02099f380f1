"""The grid file: the parameters that a sweep varies, and their values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from sightword import yaml_reader
from sightword.errors import FileFormatError, ParamsError
from sightword.files import Pathish, read_text
from sightword.settings import MAX_SEED, Settings
from sightword.yaml_reader import shown

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
LONGEST_NAME = 40
MOST_SEEDS = 1000
SEED = "train.seed"


def _distinct(values: list[Any]) -> list[Any]:
    seen: list[Any] = []
    for value in values:
        # 1 and true are equal to Python, and no duplicates
        if any(value == other and type(value) is type(other) for other in seen):
            raise ValueError(f"{shown(value)} stands there twice")
        seen.append(value)
    return values


Values = Annotated[list[Any], Field(min_length=1), AfterValidator(_distinct)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
Block = Annotated[dict[str, Values], Field(min_length=1)]


class Grid(Settings):
    """One sweep."""

    name: Annotated[str, StringConstraints(pattern=NAME, max_length=LONGEST_NAME)]
    """The beginning of the experiments' names; default: the file's name."""
    base: str | None = None
    """The recipe, or the file of parameters, that all experiments start from; default: ``params.yaml`` as it stands."""
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
        total = 0
        for block in self.axes:
            count = 1
            for values in block.values():
                count *= len(values)
            total += count
        return total


def load(path: Pathish) -> Grid:
    """Read a grid file and check its shape; its parameters are checked by :func:`pipeline.experiments.plan.expand`.

    Raises:
        FileFormatError: the file cannot be read.
        ParamsError: the file is not YAML, or not a grid; with all errors, one line each.
    """
    values = _read(path)
    if not isinstance(values, dict) or "blocks" not in values:
        raise ParamsError("is not a grid: it has no `blocks`", where=path, todo="See recipes/grid.yaml for one.")
    values = {"name": _default_name(Path(path)), **values}
    problems = _single_values(values) + _twice(values)
    if not problems:
        try:
            return Grid.model_validate(values)
        except ValidationError as error:
            problems = list(dict.fromkeys(_explain(item) for item in error.errors()))
    raise ParamsError("\n  ".join(["is not a grid that can be run:", *problems]), where=path)


def _read(path: Pathish) -> Any:
    text = read_text(path, todo="See recipes/grid.yaml for one.")
    try:
        return yaml_reader.parse(text, path)
    except FileFormatError as error:
        raise ParamsError(error.what, where=error.where) from None


def _default_name(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-_")[:LONGEST_NAME] or "sweep"


def _single_values(values: dict[str, Any]) -> list[str]:
    """Return an error for each value without brackets, which could mean itself or, if it is a list, its items."""
    blocks = values["blocks"] if isinstance(values["blocks"], list) else []
    return [
        f"blocks[{number}].{key} = {shown(value)}: the values go in brackets (expected [{shown(value)}], "
        "or under `set` what is the same in all)"
        for number, block in enumerate(blocks, start=1)
        if isinstance(block, dict)
        for key, value in block.items()
        if not isinstance(value, list)
    ]


def _twice(values: dict[str, Any]) -> list[str]:
    """Return an error for each parameter that is set in two places."""
    fixed = values.get("set")
    blocks = values["blocks"] if isinstance(values["blocks"], list) else []
    problems = []
    for number, block in enumerate(blocks, start=1):
        if isinstance(block, dict):
            if isinstance(fixed, dict):
                problems += [f"{key}: stands under `set` and in blocks[{number}]" for key in block if key in fixed]
            if values.get("seeds") is not None and SEED in block:
                problems.append(f"{SEED}: stands in blocks[{number}], and `seeds` sets it too")
    if values.get("seeds") is not None and isinstance(fixed, dict) and SEED in fixed:
        problems.append(f"{SEED}: stands under `set`, and `seeds` sets it too")
    return problems


def _explain(item: Any) -> str:
    place = ""
    for part in item["loc"]:
        if isinstance(part, int):
            place += f"[{part + 1}]"
        elif part not in ("int", "constrained-int") and not part.startswith("list["):  # the arms of a union
            place += f".{part}"
    place = place.removeprefix(".")
    if item["type"] == "extra_forbidden":
        return f"{place}: no such key; accepted: {', '.join(Grid.model_fields)}"
    if item["type"] == "string_pattern_mismatch":
        return f"{place} = {shown(item['input'])}: expected letters, digits, - and _"
    message = str(item["msg"]).removeprefix("Value error, ")
    return f"{place} = {shown(item['input'])}: {message[:1].lower()}{message[1:]}"
