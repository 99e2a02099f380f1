"""The findings of checks, and a loop in which one failing check does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pipeline.doctor.context import Context
from sightword.errors import SightwordError
from sightword.text import first_line

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Note:
    """One result of a check."""

    state: State
    what: str
    """The finding, as one sentence without a full stop."""
    todo: str = ""
    """What the user can do about the finding."""


@dataclass(frozen=True)
class Finding(Note):
    """A note with the name of its check."""

    check: str = ""

    def as_json(self) -> dict[str, str]:
        """Return plain values: check, state, what, todo."""
        return {"check": self.check, "state": self.state, "what": self.what, "todo": self.todo}


@dataclass(frozen=True)
class Check:
    """A named check."""

    name: str
    function: Callable[[Context], Iterable[Note]]
    needs_project: bool = False
    """The check is left out outside a project."""
    slow: bool = False
    """The check is left out with ``--quick``."""


def good(what: str) -> Note:
    """Return a note that asks for nothing."""
    return Note("ok", what)


def warning(what: str, todo: str) -> Note:
    """Return a note of something that makes a run worse, but not impossible."""
    return Note("warning", what, todo)


def problem(what: str, todo: str) -> Note:
    """Return a note of something that would make a run fail, or give a result that is not what it seems."""
    return Note("problem", what, todo)


def message(error: SightwordError) -> str:
    """Return the message of an error without its advice: place, defect, expectation."""
    place = f"{error.where}: " if error.where else ""
    return f"{place}{error.what}" + (f"; expected {error.expected}" if error.expected else "")


def examine(checks: Iterable[Check], context: Context) -> Iterator[Finding]:
    """Yield the findings of the checks, in their order; a check that fails is a problem of its own."""
    for check in checks:
        if (check.needs_project and context.project is None) or (check.slow and context.quick):
            continue
        yield from (Finding(note.state, note.what, note.todo, check.name) for note in _notes(check, context))


def _notes(check: Check, context: Context) -> list[Note]:
    try:
        return list(check.function(context))
    except SightwordError as error:
        return [problem(message(error), error.todo or "")]
    except Exception as error:  # noqa: BLE001 - a broken machine fails in unforeseen ways, and the other checks must go on
        return [problem(f"could not be checked ({type(error).__name__}: {first_line(error)})", "Look at it by hand.")]
