"""Reads YAML as DVC does, in bounded time, with the line and column of an error.

Since aliases let a short file stand for billions of values, and libyaml crashes on deep nesting, the reader counts the
events of a text first. libyaml parses, ten times faster than ruamel.yaml, which DVC uses and whose tables resolve plain
words here: ``1e-6`` and ``100_000_000`` are numbers, ``no`` is a text, 010 is ten.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

import yaml

from sightword.errors import FileFormatError
from sightword.messages import first_line, quote

MOST_COPIES = 100_000
"""The most values that all aliases of a file together may stand for; a parameter file has about a hundred values."""
DEEPEST = 100
"""The most levels of nested lists and mappings."""

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNFIT = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""The errors that constructors raise on a text that does not fit its tag, such as ``!!bool x``."""


def parse(text: str, where: object) -> Any:
    """Return the values of a YAML 1.2 text as DVC reads them, except that dates stay texts, since JSON has no dates.

    FileFormatError if the text is not valid YAML, repeats a key, is nested too deeply, or has too many aliased values.
    """
    try:
        _check(text)
        return yaml.load(text, Loader=_loader())  # noqa: S506 - made from the safe loader
    except UnicodeEncodeError as error:
        raise FileFormatError(f"is not valid YAML (character {error.start + 1} is not text)", where=where) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = where if mark is None else f"{where}, line {mark.line + 1}, column {mark.column + 1}"
        problem = getattr(error, "problem", None) or first_line(error)
        what = problem if isinstance(error, _Refused) else f"is not valid YAML ({problem})"
        raise FileFormatError(what, where=place) from None


class _Refused(yaml.MarkedYAMLError):  # type: ignore[misc]  # PyYAML has no types
    """A valid text that is not read."""

    def __init__(self, problem: str, event: Any) -> None:
        super().__init__(None, None, problem, event.start_mark)


@functools.cache
def _loader() -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.resolver import implicit_resolvers

    class Loader(_BASE):  # type: ignore[misc]  # which of two classes the base is, is known at run time only
        yaml_implicit_resolvers: dict[str, list[tuple[str, Any]]] = {}  # noqa: RUF012 - PyYAML's own way

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            """Refuse a repeated key, as DVC does."""
            pairs = list(node.value)
            found: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
            if len(found) < len(pairs) and node.value == pairs:  # DVC allows repeated keys that `<<` merges
                seen = set()
                for key, _ in pairs:
                    name = self.construct_object(key, deep=True)
                    if name in seen:
                        problem = f"the key {name} stands twice"
                        raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                    seen.add(name)
            return found

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            """Report the line of a value that does not fit its tag."""
            try:
                return super().construct_object(node, deep)
            except (*_UNFIT, YAMLError):  # ruamel.yaml constructs the numbers and dates
                text = f" {quote(node.value)}" if isinstance(node.value, str) else ""
                problem = f"the value{text} cannot be read as {str(node.tag).rpartition(':')[2]}"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

    values = YAML(typ="safe", pure=True).constructor

    def scalar(kind: str, result: Any = lambda value: value) -> None:
        make = getattr(values, f"construct_yaml_{kind}")
        Loader.add_constructor(
            f"tag:yaml.org,2002:{kind}",
            lambda loader, node: result(make(ScalarNode(None, loader.construct_scalar(node)))),
        )

    for versions, tag, pattern, first in implicit_resolvers:
        if (1, 2) in versions:
            Loader.add_implicit_resolver(tag, pattern, first)
    scalar("int", _writable)
    scalar("float")
    scalar("timestamp", str)
    return Loader


def _writable(number: int) -> int:
    str(number)  # raises a ValueError for a hexadecimal number with too many decimal digits for Python
    return number


def _check(text: str) -> None:
    """Raise an error of PyYAML for a text whose values cannot be constructed in bounded time and memory."""
    sizes: dict[str, int] = {}
    nested: list[tuple[str | None, int]] = []  # each open collection's anchor and the number of values before it
    count = copies = 0
    for event in yaml.parse(text, Loader=_BASE):
        if isinstance(event, yaml.CollectionStartEvent):
            nested.append((event.anchor, count + copies))
            count += 1
            if len(nested) > DEEPEST:
                raise _Refused(f"is nested more than {DEEPEST} levels deep", event)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = nested.pop()
            if anchor:
                sizes[anchor] = count + copies - before
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in nested):
                raise _Refused(f"the alias *{event.anchor} is part of its own value", event)
            copies += sizes.get(event.anchor, 0)  # the loader reports an unknown anchor
            if copies > MOST_COPIES:
                raise _Refused(f"its aliases stand for more than {MOST_COPIES:,} values", event)
        elif isinstance(event, yaml.DocumentStartEvent) and event.version not in (None, (1, 2)):
            raise _Refused("asks for another version of YAML than 1.2, which reads some words as other values", event)
