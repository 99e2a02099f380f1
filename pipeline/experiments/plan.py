"""The experiments of a grid: their parameters, checked, and their names."""

from __future__ import annotations

import copy
import difflib
import hashlib
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.experiments.grid import Grid
from pipeline.lineage import documents
from pipeline.params import params_file
from sightword.errors import ParamsError
from sightword.files import canonical_json

MOST = 100_000
"""Experiments of one sweep."""
LONGEST = 100
"""Letters of an experiment's name; longer ones are cut, and told apart by a hash."""
SHOWN = 20
"""Faults that a message names."""


@dataclass(frozen=True)
class Run:
    """One experiment of a sweep."""

    name: str
    values: dict[str, Any]
    """The parameters that its block and the seeds set, by their full names."""
    changes: dict[str, Any]
    """These, and those that are the same in the whole sweep."""
    params: dict[str, dict[str, Any]]
    """All parameters, checked, by section."""


def expand(grid: Grid, base: str, where: object) -> list[Run]:
    """All experiments of a grid, in its order; nothing wrong gets through.

    Args:
        grid: the grid.
        base: the text of the parameter file that it starts from.
        where: the grid's file, for messages.

    Raises:
        ParamsError: unknown parameters, wrong values, experiments that are there twice, or too many of them.
    """
    if grid.size > MOST:
        raise ParamsError(f"makes {grid.size:,} experiments", where=where, expected=f"at most {MOST:,}")
    plain = documents.parse(base, "params")
    params_file.check(plain, where=grid.base or "params.yaml")
    named = [*grid.set, *(key for block in grid.axes for key in block), *(key for one in grid.exclude for key in one)]
    _known(dict.fromkeys(named), plain, where)
    combinations = _combinations(grid, where)
    checked = _checked(grid, combinations, plain, where)
    _no_duplicates(combinations, checked, where)
    return [
        Run(name, values, {**grid.set, **values}, found)
        for name, values, found in zip(_names(grid.name, combinations), combinations, checked, strict=True)
    ]


def differing(run: Run, base: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The parameters of a run that are not those of the base, by their full names."""
    mine, theirs = dict(leaves(run.params)), dict(leaves(base))
    return {key: value for key, value in mine.items() if key not in theirs or theirs[key] != value}


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every parameter with its full name."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _known(keys: Mapping[str, Any], base: Mapping[str, Any], where: object) -> None:
    known = dict(leaves(base))
    problems = []
    for key in keys:
        if key in known:
            continue
        near = difflib.get_close_matches(str(key), known, n=1)
        inside = [name for name in known if name.startswith(f"{key}.")]
        guess = f" (did you mean {near[0]!r}?)" if near else f" (it holds {', '.join(inside[:3])} …)" if inside else ""
        problems.append(f"{key}: no such parameter{guess}")
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
    """The whole parameters of each combination, as the stages will see them."""
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
        lines = [f"{line}\n    in {_shown(values)}" for line, values in list(problems.items())[:SHOWN]]
        if len(problems) > SHOWN:
            lines.append(f"and {len(problems) - SHOWN} more")
        raise ParamsError("\n  ".join(["has values that no stage accepts:", *lines]), where=where)
    return found


def _place(values: Any, key: str) -> tuple[Any, str]:
    """Where a parameter stands: the section that holds it, and its last name."""
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
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise ParamsError(
            "\n  ".join(["has the same experiment twice:", *problems[:SHOWN], *more]),
            where=where,
            todo="\nTake one out, or leave it out by `exclude`.",
        )


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _names(sweep: str, combinations: Sequence[dict[str, Any]]) -> list[str]:
    """A name for each combination that depends on its own values only, and that git and a shell take as it is.

    Words stand alone, all else follows the parameter's name: ``grid-gru-hidden512-seed0``.
    """
    plain = [_name(sweep, values) for values in combinations]
    counts = Counter(name for name, _ in plain)
    return [
        name if whole and counts[name] == 1 else f"{name}-{_hash(values)}"
        for (name, whole), values in zip(plain, combinations, strict=True)
    ]


def _name(sweep: str, values: Mapping[str, Any]) -> tuple[str, bool]:
    """The name, and whether it says all."""
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
    """The ``params.yaml`` of a run: the base's text with other values, its comments kept."""
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
