"""What a check finds, and checks that cannot take each other down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from pipeline.doctor.context import Situation
from sightword.errors import SightwordError

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Note:
    """One thing a check has to say."""

    state: State
    what: str
    """What is so, in one sentence without a full stop."""
    todo: str = ""
    """What to do about it."""


@dataclass(frozen=True)
class Finding(Note):
    """A note, and the check it is from."""

    check: str = ""

    def as_json(self) -> dict[str, str]:
        """Plain values: check, state, what, todo."""
        values = asdict(self)
        return {name: values[name] for name in ("check", "state", "what", "todo")}


@dataclass(frozen=True)
class Check:
    """One look at one thing."""

    name: str
    look: Callable[[Situation], Iterable[Note]]
    needs_project: bool = False
    """Left out outside a project."""
    slow: bool = False
    """Left out where the answer is wanted at once."""


def good(what: str) -> Note:
    """Nothing to do."""
    return Note("ok", what)


def warning(what: str, todo: str) -> Note:
    """A run is possible, but not as it should be."""
    return Note("warning", what, todo)


def problem(what: str, todo: str) -> Note:
    """A run would fail, or would not be what it seems."""
    return Note("problem", what, todo)


def examine(checks: Iterable[Check], situation: Situation) -> Iterator[Finding]:
    """What the checks find, in their order.

    A check that fails is a problem of its own, and the others go on.
    """
    for check in checks:
        if (check.needs_project and situation.project is None) or (check.slow and situation.quick):
            continue
        yield from (Finding(note.state, note.what, note.todo, check.name) for note in _notes(check, situation))


def _notes(check: Check, situation: Situation) -> list[Note]:
    try:
        return list(check.look(situation))
    except SightwordError as error:
        place = f"{error.where}: " if error.where else ""
        expected = f"; expected {error.expected}" if error.expected else ""
        return [problem(f"{place}{error.what}{expected}", error.todo or "")]
    except Exception as error:  # noqa: BLE001 - a machine in disorder fails in ways nobody foresaw: all the rest is still told
        said = (str(error).splitlines() or [""])[0]
        return [problem(f"could not be checked ({type(error).__name__}: {said})", "Look at it by hand.")]
