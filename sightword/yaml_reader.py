"""YAML as DVC reads it: plain values, in bounded time, or one message with line and column.

A file of a few lines may stand for billions of values (aliases of aliases), or for itself, and libyaml's own loader
crashes on deep nesting. So the events of a text are counted before any value is made of them.

A history of hundreds of lock files has to be read in seconds, and ruamel.yaml, which DVC uses, takes ten times as long
as libyaml. So libyaml parses, and ruamel.yaml's own tables decide what a plain word means: ``1e-6`` and
``100_000_000`` are numbers, ``no`` is a text, 010 is ten.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

import yaml

from sightword.errors import FileFormatError

MOST_COPIES = 100_000
"""Values that the aliases of a file may stand for, all together. A file of parameters has about a hundred values."""
DEEPEST = 100
"""Levels of lists and mappings within each other."""

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNFIT = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What constructors of values raise on a tag whose text does not fit it, such as ``!!bool x``."""


def parse(text: str, where: object) -> Any:
    """Return the values of a YAML 1.2 text as DVC reads them, but dates as texts, since JSON has none.

    Args:
        text: the text.
        where: the file, for messages.

    Raises:
        FileFormatError: it is not valid YAML, has a key twice, is nested too deeply, or its aliases stand for too much.
    """
    _check(text, where)
    try:
        return yaml.load(text, Loader=_loader())  # noqa: S506 - made from the safe loader
    except yaml.YAMLError as error:
        raise _invalid(error, where) from None


@functools.cache
def _loader() -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.resolver import implicit_resolvers

    class Loader(_BASE):  # type: ignore[misc]  # which of two classes the base is, is known at run time only
        yaml_implicit_resolvers: dict[str, list[tuple[str, Any]]] = {}  # noqa: RUF012 - PyYAML's own way

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            """Refuse a key that stands twice in a mapping, as DVC does."""
            pairs = list(node.value)
            found: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
            if len(found) < len(pairs) and node.value == pairs:  # where `<<` merges others in, DVC lets it pass
                seen = set()
                for key, _ in pairs:
                    name = self.construct_object(key, deep=True)
                    if name in seen:
                        raise yaml.constructor.ConstructorError(
                            None, None, f"the key {name} stands twice", key.start_mark
                        )
                    seen.add(name)
            return found

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            """Name the line of a value that does not fit its tag."""
            try:
                return super().construct_object(node, deep)
            except (*_UNFIT, YAMLError):  # the numbers and dates are ruamel.yaml's
                raise yaml.constructor.ConstructorError(None, None, _unfit(node), node.start_mark) from None

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
    str(number)  # a hexadecimal one may be too long for Python to write it in decimal digits: a ValueError
    return number


def _check(text: str, where: object) -> None:
    """Make sure that a text is YAML whose values can be made in bounded time and memory.

    Args:
        text: the text.
        where: the file, for messages.

    Raises:
        FileFormatError: it is not valid YAML, nested too deeply, or its aliases stand for too much.
    """
    sizes: dict[str, int] = {}
    nested: list[tuple[str | None, int]] = []  # the anchor of each open collection, and the values before it
    count = copies = 0
    try:
        for event in yaml.parse(text, Loader=_BASE):
            if isinstance(event, yaml.CollectionStartEvent):
                nested.append((event.anchor, count + copies))
                count += 1
                if len(nested) > DEEPEST:
                    raise _refused(f"is nested more than {DEEPEST} levels deep", where, event)
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
                    raise _refused(f"the alias *{event.anchor} stands for what it is part of", where, event)
                copies += sizes.get(event.anchor, 0)  # an unknown one is told by whoever makes the values
                if copies > MOST_COPIES:
                    raise _refused(f"its aliases stand for more than {MOST_COPIES:,} values", where, event)
            elif isinstance(event, yaml.DocumentStartEvent) and event.version not in (None, (1, 2)):
                raise _refused(
                    "asks for another version of YAML than 1.2, in which words mean other values", where, event
                )
    except yaml.YAMLError as error:
        raise _invalid(error, where) from None
    except UnicodeEncodeError as error:
        raise FileFormatError(f"is not valid YAML (character {error.start + 1} is no text)", where=where) from None


def _invalid(error: Exception, where: object) -> FileFormatError:
    """What an error of PyYAML means to a user."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    place = where if mark is None else f"{where}, line {mark.line + 1}, column {mark.column + 1}"
    return FileFormatError(f"is not valid YAML ({problem})", where=place)


def _unfit(node: Any) -> str:
    """That the text of a node does not fit its tag."""
    kind = str(node.tag).rpartition(":")[2]
    text = f" {shown(node.value)}" if isinstance(node.value, str) else ""
    return f"the value{text} cannot be read as {kind}"


def shown(value: object, most: int = 80) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def _refused(what: str, where: object, event: Any) -> FileFormatError:
    mark = event.start_mark
    return FileFormatError(what, where=f"{where}, line {mark.line + 1}, column {mark.column + 1}")
