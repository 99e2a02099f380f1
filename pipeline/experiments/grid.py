"""A sweep: the grid file with the parameters that vary, and the experiments that the file describes."""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools
import math
import operator
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, ValidationError, model_validator

from pipeline.params import overlay, params_file, recipes
from pipeline.pipelines import Pipeline, of_sections, shipped
from sightword.errors import FileFormatError, ParamsError
from sightword.io import yaml_reader
from sightword.io.files import Pathish, canonical_json, read_text
from sightword.messages import and_more, flat, guess, quote
from sightword.settings import MAX_SEED, Settings, explain

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
LONGEST_NAME = 40
MOST_SEEDS = 1000
SEED = "train.seed"
MOST = 100_000
"""Number of experiments of one sweep at most."""
LONGEST = 100
"""Letters of an experiment's name; longer names are cut and end with a hash."""
SHOWN = 20
"""Errors that a message names."""


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
        doubles = [f"{key}: stands under `set` and {place}" for key, place in both]
        if self.seeds is not None:
            places = [place for place, keys in ({"under `set`": self.set} | blocks).items() if SEED in keys]
            doubles += [f"{SEED}: stands {place}, and `seeds` sets it too" for place in places]
        if doubles:
            raise ValueError("\n  ".join(doubles))
        return self


def load(path: Pathish) -> Grid:
    """Read a grid file and check its shape; ParamsError with all errors, one line each."""
    todo = f"See {shipped() / 'recipes' / 'grid-sample.yaml'} for one."
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


@dataclass(frozen=True)
class Trial:
    """One experiment of a sweep."""

    name: str
    values: dict[str, Any]
    """The parameters set by its block and the seeds, by full names."""
    params: dict[str, dict[str, Any]]
    """All parameters, checked, by section."""


def base_params(grid: Grid, project: Path) -> tuple[Pipeline, dict[str, Any], str]:
    """Return the pipeline of a grid, the parameters that all its experiments start from, and their source.

    Raises:
        ParamsError: there is no such base, or the project does not have the pipeline.
        FileFormatError: the base or a ``dvc.yaml`` cannot be read.
    """
    if grid.base is not None:
        is_path = os.sep in grid.base or grid.base.endswith((".yaml", ".yml"))
        recipe = recipes.find(str(project / grid.base) if is_path else grid.base, project)
        whole = overlay.resolve(recipe, project)
        overlay.check_added(whole.pipeline, project)
        return whole.pipeline, whole.values, f"the recipe {recipe.name}"
    keys = [key for one in (grid.set, *grid.axes) for key in one]
    pipeline = of_sections((key.partition(".")[0] for key in keys), project)
    overlay.check_added(pipeline, project)
    text = read_text(project / pipeline.params, todo="Write one with `sightword params --recipe NAME`.")
    return pipeline, yaml_reader.parse(text, pipeline.params), pipeline.params


def expand(grid: Grid, base: dict[str, Any], where: object) -> list[Trial]:
    """Return all experiments of a grid, in its order, from the base's parameters; messages name ``where``.

    Raises:
        ParamsError: unknown parameters, wrong values, equal experiments, or too many of them.
    """
    if grid.size > MOST:
        raise ParamsError(f"makes {grid.size:,} experiments", where=where, expected=f"at most {MOST:,}")
    params_file.check(base, where=grid.base or "params.yaml")
    _check_names(grid, flat(base), where)
    combinations = _combinations(grid, where)
    checked = _checked(grid, combinations, base, where)
    return [Trial(*trial) for trial in zip(_names(grid.name, combinations), combinations, checked, strict=True)]


def _refuse(what: str, problems: Sequence[str], where: object, todo: str | None = None) -> None:
    if problems:
        raise ParamsError("\n  ".join([what, and_more(problems, SHOWN, between="\n  ")]), where=where, todo=todo)


def _check_names(grid: Grid, known: Mapping[str, Any], where: object) -> None:
    problems = []
    for key in dict.fromkeys(key for one in (grid.set, *grid.axes, *grid.exclude) for key in one):
        if key not in known:
            inside = [name for name in known if name.startswith(f"{key}.")]
            hint = f" (it holds {', '.join(inside[:3])} …)" if inside else ""
            problems.append(f"{key}: no such parameter{guess(key, known) or hint}")
    _refuse(
        "has unknown parameters:",
        problems,
        where,
        "\nWrite each as section.key; `base` names a recipe of another pipeline.",
    )


def _combinations(grid: Grid, where: object) -> list[dict[str, Any]]:
    every = [
        dict(zip(block, values, strict=True)) for block in grid.axes for values in itertools.product(*block.values())
    ]
    for one in grid.exclude:
        if not any(one.items() <= values.items() for values in every):
            raise ParamsError(f"`exclude` leaves nothing out by {_shown(one)}", where=where)
    kept = [values for values in every if not any(one.items() <= values.items() for one in grid.exclude)]
    if not kept:
        raise ParamsError("`exclude` leaves no experiment", where=where)
    return kept


def _checked(
    grid: Grid, combinations: Sequence[dict[str, Any]], base: Mapping[str, Any], where: object
) -> list[dict[str, dict[str, Any]]]:
    """Return all parameters of each combination, as the stages will see them."""
    checked, wrong, twice = [], dict[str, str](), list[str]()
    first: dict[str, dict[str, Any]] = {}
    for values in combinations:
        whole = copy.deepcopy(dict(base))
        for key, value in {**grid.set, **values}.items():
            *above, last = key.split(".")
            functools.reduce(operator.getitem, above, whole)[last] = value
        try:
            checked.append(sections(whole))
        except ParamsError as error:
            for line in error.what.splitlines()[1:]:
                wrong.setdefault(line.strip(), f"{line.strip()}\n    in {_shown(values)}")
            continue
        other = first.setdefault(canonical_json(checked[-1]), values)
        if other is not values:
            twice.append(f"{_shown(values)}\n    is the same as {_shown(other)}")
    _refuse("has values that no stage accepts:", list(wrong.values()), where)
    _refuse("has the same experiment twice:", twice, where, "\nRemove one, or leave it out by `exclude`.")
    return checked


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _names(sweep: str, combinations: Sequence[dict[str, Any]]) -> list[str]:
    """Return names such as ``grid-gru-hidden512-seed0``, made of the values and of letters that git and a shell accept.

    A name that would be changed, cut or repeated ends with a hash of the values.
    """
    wanted = ["-".join([sweep, *(_word(key, value) for key, value in one.items())]) for one in combinations]
    clean = [re.sub(r"[^A-Za-z0-9_+.-]+|\.\.+", "_", name)[:LONGEST].rstrip("-.") for name in wanted]
    counts = Counter(clean)
    hashes = (hashlib.sha256(canonical_json(one).encode()).hexdigest()[:6] for one in combinations)
    return [
        name if name == plain and counts[name] == 1 and not name.endswith(".lock") else f"{name}-{end}"
        for name, plain, end in zip(clean, wanted, hashes, strict=True)
    ]


def _word(key: str, value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    return key.rpartition(".")[2] + (f"-{value}".lower() if isinstance(value, bool) or value is None else f"{value}")


def sections(values: Any) -> dict[str, dict[str, Any]]:
    """Return the checked parameters, by section; ParamsError for others."""
    return {name: section.model_dump() for name, section in params_file.check(values).items()}
