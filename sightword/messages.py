"""Small texts for messages: quotes, names of nested values, near names, shortened lists, the line of an error that
matters; and warnings whose counts are summed.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import PurePath
from typing import Any

QUOTED = 80
"""The most characters of a quoted value."""

SENTENCE = 400
"""The most characters of a sentence in a list."""

LONGEST_LINE = 1000
"""The most characters of a line of an error's part; no part that is written here is as long."""

_SECRET = re.compile(r"(ACCESS_KEY(_ID)?|SECRET(_KEY)?|TOKEN|PASSWORD|ACCOUNT_KEY|CONNECTION_STRING)$")
_Counted = dict[str, tuple[logging.Logger, list[Any]]]
_counted: ContextVar[_Counted | None] = ContextVar("counted", default=None)


def short(text: object, most: int = QUOTED) -> str:
    """Return a text, cut to ``most`` characters: a value of a damaged file may have millions."""
    found = str(text)
    return found if len(found) <= most else f"{found[: most - 4]} ..."


def bounded(text: str) -> str:
    """Return a text without the middle of each line of more than :data:`LONGEST_LINE` characters."""
    half = (LONGEST_LINE - 5) // 2
    if len(text) <= LONGEST_LINE:
        return text
    lines = text.split("\n")
    return "\n".join(x if len(x) <= LONGEST_LINE else f"{x[:half]} ... {x[-half:]}" for x in lines)


def quote(value: object) -> str:
    """Return the ``repr`` of a value, cut to :data:`QUOTED` characters."""
    return short(repr(value))


@contextlib.contextmanager
def counted_together() -> Iterator[None]:
    """Log each message of :func:`warn_share` inside once, at the end, with the sums of its counts."""
    found: _Counted = {}
    token = _counted.set(found)
    try:
        yield
    finally:
        _counted.reset(token)
    for message, (log, values) in found.items():
        if values[0]:
            log.warning(message, *values)


def warn_share(log: logging.Logger, message: str, count: int, total: int, first: str = "") -> None:
    """Log how many of how many there are, and the first of them; nothing if there are none."""
    found = _counted.get()
    if found is not None:
        before = found.setdefault(message, (log, [0, 0, first]))[1]
        before[:] = before[0] + count, before[1] + total, before[2] if before[0] else first
    elif count:
        log.warning(message, count, total, first)


def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the values of nested mappings by their full names, joined by dots, such as ``train.margin``."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value}
    return found


def did_you_mean(name: str, known: Iterable[str], *, count: int = 3) -> str | None:
    """Return a question with the known names most like a name: ``Did you mean train or retrieval?``; None without one.

    Matches of prefix and suffix come last.
    """
    names = list(dict.fromkeys(map(str, known)))
    alike = difflib.get_close_matches(name, names, count, cutoff=0.5)
    if name:
        alike += [one for one in names if one not in alike and (one.startswith(name) or one.endswith(name))]
    return f"Did you mean {' or '.join(map(short, alike[:count]))}?" if alike else None


def guess(name: object, known: Iterable[str]) -> str:
    """Return a remark to stand behind a wrong name, ``(did you mean 'train'?)`` with a space before; empty without one.

    Only names that differ in a few letters are asked for.
    """
    near = difflib.get_close_matches(short(name), list(known), 1)
    return f" (did you mean {quote(near[0])}?)" if near else ""


def first_line(error: object) -> str:
    """Return the first line with text of an error's message, or of a text; the class of an error without a message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def last_line(complaints: str) -> str:
    """Return the last line with text of what a program wrote to standard error, without ``ERROR:`` or ``fatal:``."""
    lines = [line.strip() for line in complaints.splitlines() if line.strip()] or ["no message"]
    return lines[-1].removeprefix("ERROR: ").removeprefix("fatal: ")


def and_more(items: Iterable[object], shown: int = 3, *, between: str = ", ") -> str:
    """Return the first ``shown`` items, and how many more there are: ``a, b, c and 4 more``.

    Each item is cut as by :func:`short`: names, which stand between commas or arrows, to :data:`QUOTED` characters,
    sentences and paths, whose end a reader needs, to :data:`SENTENCE`.
    """
    names = between in (", ", " -> ")
    texts = [short(item, QUOTED if names and not isinstance(item, PurePath) else SENTENCE) for item in items]
    rest = len(texts) - shown
    last = " " if between == ", " else between
    return between.join(texts[:shown]) + (f"{last}and {rest} more" if rest > 0 else "")


def counts(numbers: Mapping[str, int], *, before: str = "") -> str:
    """Return the counts that are not 0, as ``480 computed, 3 rejected``, behind ``before``; empty if all are 0."""
    found = ", ".join(f"{number} {what}" for what, number in numbers.items() if number)
    return f"{before}{found}" if found else ""


def install_extra(name: str) -> str:
    """Return how to install the packages of an extra; Sightword itself is in no index of packages."""
    of_wheel = f"pip install 'FILE.whl[{name}]' with its wheel"
    return f"Install the extra {name}: pip install '.[{name}]' in a clone of Sightword, or {of_wheel}."


def plural(count: object, one: str, many: str = "") -> str:
    """Return a number, or its text, with a noun: ``1 thread``, ``0.25 GPUs``, ``2 queries`` (``many``)."""
    return f"{count} {one if str(count) == '1' else many or f'{one}s'}"


def size(count: float) -> str:
    """Return a number of bytes as text, in powers of ten as disks are sold."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" or abs(value) >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def without_credentials(text: str) -> str:
    """Return a text without the credentials in addresses and in this process's variables."""
    text = re.sub(r"://[^/@\s]*@", "://***@", text)
    text = re.sub(r"(://[^\s?]*)(\?[^\s\"']*)?", lambda found: found[1] + "?***" * bool(found[2]), text)
    for name, value in os.environ.items():
        if len(value) > 7 and _SECRET.search(name):
            text = text.replace(value, "***")
    return text
