"""The findings of checks, and a loop in which one failing check does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from pipeline.doctor.context import Context
from sightword.errors import SightwordError
from sightword.messages import first_line

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One result of a check."""

    check: str
    """The name of the check; :func:`examine` sets it."""
    state: State
    what: str
    """The finding, as one sentence without a full stop."""
    todo: str = ""
    """What the user can do about the finding."""


class Check(NamedTuple):
    """A named check."""

    name: str
    function: Callable[[Context], Iterable[Finding]]
    needs_project: bool = False
    """The check is left out outside a project."""
    slow: bool = False
    """The check is left out with ``--quick``."""


good, warning, problem = (partial(Finding, "", state) for state in ("ok", "warning", "problem"))
"""Make a finding: a problem makes a run fail, or give a wrong result; a warning makes a run worse."""


def failure(error: SightwordError, todo: str) -> Finding:
    """Return the problem that an error names, with its advice, else with ``todo``."""
    place = f"{error.where}: " if error.where else ""
    what = f"{place}{error.what}" + (f"; expected {error.expected}" if error.expected else "")
    return problem(what, (error.todo or todo).strip())


def examine(checks: Iterable[Check], context: Context) -> Iterator[Finding]:
    """Yield the findings of the checks, in their order; a check that fails is a problem of its own."""
    for check in checks:
        if (check.needs_project and context.project is None) or (check.slow and context.quick):
            continue
        try:
            found = list(check.function(context))
        except SightwordError as error:
            found = [failure(error, "Look at it by hand.")]
        except Exception as error:  # noqa: BLE001 - a broken machine fails in unforeseen ways
            what = f"could not be checked ({type(error).__name__}: {first_line(error)})"
            found = [problem(what, "Look at it by hand.")]
        yield from (replace(one, check=check.name) for one in found)
