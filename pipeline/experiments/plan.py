"""The experiments of a grid: checked parameters, and names."""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import itertools
import operator
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.experiments.grid import Grid
from pipeline.lineage import documents
from pipeline.params import params_file
from sightword.errors import ParamsError, SweepError
from sightword.io.files import canonical_json
from sightword.messages import and_more, flat, guess

MOST = 100_000
"""Number of experiments of one sweep at most."""
LONGEST = 100
"""Letters of an experiment's name; longer names are cut and end with a hash."""
SHOWN = 20
"""Errors that a message names."""


@dataclass(frozen=True)
class Trial:
    """One experiment of a sweep."""

    name: str
    values: dict[str, Any]
    """The parameters set by its block and the seeds, by full names."""
    changes: dict[str, Any]
    """These parameters, and the parameters that the whole sweep sets."""
    params: dict[str, dict[str, Any]]
    """All parameters, checked, by section."""


def expand(grid: Grid, base: str, where: object) -> list[Trial]:
    """Return all experiments of a grid, in its order, from the text of a parameter file; messages name ``where``.

    Raises:
        ParamsError: unknown parameters, wrong values, equal experiments, or too many of them.
    """
    if grid.size > MOST:
        raise ParamsError(f"makes {grid.size:,} experiments", where=where, expected=f"at most {MOST:,}")
    plain = documents.parse(base, "params")
    params_file.check(plain, where=grid.base or "params.yaml")
    _check_names(grid, flat(plain), where)
    combinations = _combinations(grid, where)
    checked = _checked(grid, combinations, plain, where)
    every = zip(_names(grid.name, combinations), combinations, checked, strict=True)
    return [Trial(name, values, {**grid.set, **values}, found) for name, values, found in every]


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
        "\nWrite each as section.key; `base` or `pipeline` names a further pipeline.",
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
    found, wrong, twice = [], dict[str, str](), list[str]()
    first: dict[str, dict[str, Any]] = {}
    for values in combinations:
        whole = _set(copy.deepcopy(base), {**grid.set, **values})
        try:
            found.append(sections(whole))
        except ParamsError as error:
            for line in error.what.splitlines()[1:]:
                wrong.setdefault(line.strip(), f"{line.strip()}\n    in {_shown(values)}")
            continue
        other = first.setdefault(canonical_json(found[-1]), values)
        if other is not values:
            twice.append(f"{_shown(values)}\n    is the same as {_shown(other)}")
    _refuse("has values that no stage accepts:", list(wrong.values()), where)
    _refuse("has the same experiment twice:", twice, where, "\nRemove one, or leave it out by `exclude`.")
    return found


def _set(document: Any, changes: Mapping[str, Any]) -> Any:
    """Set parameters, by their full names, in nested mappings, and return these."""
    for key, value in changes.items():
        *above, last = key.split(".")
        functools.reduce(operator.getitem, above, document)[last] = value
    return document


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _names(sweep: str, combinations: Sequence[dict[str, Any]]) -> list[str]:
    """Return names such as ``grid-gru-hidden512-seed0``, made of own values and of letters that git and a shell accept.

    A name that would be changed, cut or repeated ends with a hash of the values.
    """
    wanted = ["-".join([sweep, *(_word(key, value) for key, value in one.items())]) for one in combinations]
    clean = [re.sub(r"[^A-Za-z0-9_+.-]+|\.\.+", "_", name)[:LONGEST].rstrip("-.") for name in wanted]
    counts = Counter(clean)
    return [
        name if name == plain and counts[name] == 1 and not name.endswith(".lock") else f"{name}-{_hash(values)}"
        for name, plain, values in zip(clean, wanted, combinations, strict=True)
    ]


def _word(key: str, value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    return key.rpartition(".")[2] + (f"-{value}".lower() if isinstance(value, bool) or value is None else f"{value}")


def _hash(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(dict(values)).encode()).hexdigest()[:6]


def written(base: str, run: Trial) -> str:
    """Return the ``params.yaml`` of a run: the base's text with other values and the same comments.

    Raises:
        SweepError: the run's parameters cannot be written as YAML.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        """Writes ``null`` as the recipes do."""

    Representer.add_representer(type(None), lambda own, _: own.represent_scalar("tag:yaml.org,2002:null", "null"))
    yaml = YAML()
    yaml.Representer = Representer
    yaml.width = 4096
    yaml.preserve_quotes = True
    out = io.StringIO()
    yaml.dump(_set(yaml.load(base), run.changes), out)
    if sections(documents.parse(out.getvalue(), run.name)) != run.params:
        raise SweepError("its parameters cannot be written as YAML", where=run.name)
    return out.getvalue()


def sections(values: Any) -> dict[str, dict[str, Any]]:
    """Return the checked parameters, by section; ParamsError for others."""
    return {name: section.model_dump() for name, section in params_file.check(values).items()}
