"""The experiments of a grid: checked parameters, and names."""

from __future__ import annotations

import copy
import hashlib
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.experiments.grid import Grid
from pipeline.lineage import documents
from pipeline.params import params_file
from sightword.errors import ParamsError
from sightword.files import canonical_json
from sightword.text import and_more, flat, guess

MOST = 100_000
"""Number of experiments of one sweep at most."""
LONGEST = 100
"""Letters of an experiment's name; longer names are cut and end with a hash."""
SHOWN = 20
"""Errors that a message names."""
_LINE = "\n  "


@dataclass(frozen=True)
class Run:
    """One experiment of a sweep."""

    name: str
    values: dict[str, Any]
    """The parameters set by its block and the seeds, by full names."""
    changes: dict[str, Any]
    """These parameters, and those that are the same in the whole sweep."""
    params: dict[str, dict[str, Any]]
    """All parameters, checked, by section."""


def expand(grid: Grid, base: str, where: object) -> list[Run]:
    """Return all experiments of a grid, in its order.

    Args:
        grid: the grid.
        base: the text of the parameter file that all experiments start from.
        where: the grid's file, for messages.

    Raises:
        ParamsError: unknown parameters, wrong values, equal experiments, or too many of them.
    """
    if grid.size > MOST:
        raise ParamsError(f"makes {grid.size:,} experiments", where=where, expected=f"at most {MOST:,}")
    plain = documents.parse(base, "params")
    params_file.check(plain, where=grid.base or "params.yaml")
    named = [*grid.set, *(key for block in grid.axes for key in block), *(key for one in grid.exclude for key in one)]
    _check_names(dict.fromkeys(named), plain, where)
    combinations = _combinations(grid, where)
    checked = _checked(grid, combinations, plain, where)
    _no_duplicates(combinations, checked, where)
    return [
        Run(name, values, {**grid.set, **values}, found)
        for name, values, found in zip(_names(grid.name, combinations), combinations, checked, strict=True)
    ]


def _check_names(keys: Iterable[str], base: Mapping[str, Any], where: object) -> None:
    known = flat(base)
    problems = []
    for key in keys:
        if key not in known:
            inside = [name for name in known if name.startswith(f"{key}.")]
            hint = f" (it holds {', '.join(inside[:3])} …)" if inside else ""
            problems.append(f"{key}: no such parameter{guess(key, known) or hint}")
    if problems:
        raise ParamsError("\n  ".join(["has unknown parameters:", *problems]), where=where, expected="section.key")


def _combinations(grid: Grid, where: object) -> list[dict[str, Any]]:
    every = [
        dict(zip(block, values, strict=True)) for block in grid.axes for values in itertools.product(*block.values())
    ]
    for one in grid.exclude:
        if not any(_has(values, one) for values in every):
            raise ParamsError(f"`exclude` leaves nothing out by {_shown(one)}", where=where)
    kept = [values for values in every if not any(_has(values, one) for one in grid.exclude)]
    if not kept:
        raise ParamsError("`exclude` leaves no experiment", where=where)
    return kept


def _has(values: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(key in values and values[key] == value for key, value in wanted.items())


def _checked(
    grid: Grid, combinations: Sequence[dict[str, Any]], base: Mapping[str, Any], where: object
) -> list[dict[str, dict[str, Any]]]:
    """Return all parameters of each combination, as the stages will see them."""
    found, problems = [], dict[str, dict[str, Any]]()
    for values in combinations:
        whole = copy.deepcopy(dict(base))
        for key, value in {**grid.set, **values}.items():
            place, last = _place(whole, key)
            place[last] = value
        try:
            sections = params_file.check(whole)
        except ParamsError as error:
            for line in error.what.splitlines()[1:]:
                problems.setdefault(line.strip(), values)
            continue
        found.append({name: section.model_dump() for name, section in sections.items()})
    if problems:
        lines = [f"{line}\n    in {_shown(values)}" for line, values in problems.items()]
        raise ParamsError(f"has values that no stage accepts:\n  {and_more(lines, SHOWN, between=_LINE)}", where=where)
    return found


def _place(values: Any, key: str) -> tuple[Any, str]:
    """Return the mapping that holds a parameter, and the parameter's last name."""
    *above, last = key.split(".")
    for part in above:
        values = values[part]
    return values, last


def _no_duplicates(combinations: Sequence[dict[str, Any]], checked: Sequence[Any], where: object) -> None:
    first: dict[str, dict[str, Any]] = {}
    problems = []
    for values, found in zip(combinations, checked, strict=True):
        other = first.setdefault(canonical_json(found), values)
        if other is not values:
            problems.append(f"{_shown(values)}\n    is the same as {_shown(other)}")
    if problems:
        raise ParamsError(
            f"has the same experiment twice:\n  {and_more(problems, SHOWN, between=_LINE)}",
            where=where,
            todo="\nRemove one, or leave it out by `exclude`.",
        )


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _names(sweep: str, combinations: Sequence[dict[str, Any]]) -> list[str]:
    """Return a name for each combination, made of its own values only and of letters that git and a shell accept.

    A value that is a word stands alone; other values follow the parameter's name: ``grid-gru-hidden512-seed0``.
    """
    plain = [_name(sweep, values) for values in combinations]
    counts = Counter(name for name, _ in plain)
    return [
        name if whole and counts[name] == 1 else f"{name}-{_hash(values)}"
        for (name, whole), values in zip(plain, combinations, strict=True)
    ]


def _name(sweep: str, values: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the name, and whether the name is neither cut nor changed."""
    wanted = "-".join([sweep, *(_word(key, value) for key, value in values.items())])
    clean = re.sub(r"[^A-Za-z0-9_+.-]+|\.\.+", "_", wanted)
    short = clean[:LONGEST].rstrip("-.")
    return short, short == wanted and not short.endswith(".lock")


def _word(key: str, value: Any) -> str:
    last = key.rpartition(".")[2]
    if isinstance(value, str) and value:
        return value
    if isinstance(value, bool) or value is None:
        return f"{last}-{'none' if value is None else str(value).lower()}"
    return f"{last}{value}"


def _hash(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(dict(values)).encode()).hexdigest()[:6]


def written(base: str, run: Run) -> str:
    """Return the ``params.yaml`` of a run: the base's text with other values and the same comments."""
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        """Writes ``null`` as the recipes do."""

    Representer.add_representer(type(None), lambda own, _: own.represent_scalar("tag:yaml.org,2002:null", "null"))
    yaml = YAML()
    yaml.Representer = Representer
    yaml.width = 4096
    yaml.preserve_quotes = True
    document = yaml.load(base)
    for key, value in run.changes.items():
        place, last = _place(document, key)
        place[last] = value
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()
