"""YAML that people write: plain values, in bounded time, or one message with line and column.

A file of a few lines may stand for billions of values (aliases of aliases), or for itself, and libyaml's own loader
crashes on deep nesting. So the events of a text are counted before any value is made of them.
"""

from __future__ import annotations

from typing import Any

import yaml

from pipeline.errors import FileFormatError

MOST_COPIES = 100_000
"""Values that the aliases of a file may stand for, all together. A file of parameters has about a hundred values."""
DEEPEST = 100
"""Levels of lists and mappings within each other."""
MOST_DIGITS = 4300
"""Digits of a whole number: Python writes and reads no more."""

_EVENTS: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
UNFIT = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What constructors of values raise on a tag whose text does not fit it, such as ``!!bool x``."""


def parse(text: str, where: object) -> Any:
    """The values of a YAML 1.2 text, as DVC reads them. A key that stands there twice is refused.

    Args:
        text: the text.
        where: the file, for messages.

    Raises:
        FileFormatError: it is not valid YAML, nested too deeply, or its aliases stand for too much.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import ConstructorError, SafeConstructor
    from ruamel.yaml.error import YAMLError

    class Constructor(SafeConstructor):
        """Says the line of a value that does not fit its tag."""

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                value = super().construct_object(node, deep)
            except UNFIT:
                raise ConstructorError(None, None, unfit(node), node.start_mark) from None
            if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
                raise ConstructorError(None, None, unfit(node), node.start_mark)
            return value

    check(text, where)
    reader = YAML(typ="safe", pure=True)
    reader.Constructor = Constructor
    try:
        return reader.load(text)
    except YAMLError as error:
        raise invalid(error, where) from None


def check(text: str, where: object) -> None:
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
        for event in yaml.parse(text, Loader=_EVENTS):
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
    except yaml.YAMLError as error:
        raise invalid(error, where) from None
    except UnicodeEncodeError as error:
        raise FileFormatError(f"is not valid YAML (character {error.start + 1} is no text)", where=where) from None


def invalid(error: Exception, where: object) -> FileFormatError:
    """What an error of PyYAML or ruamel.yaml means to a user."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    place = where if mark is None else f"{where}, line {mark.line + 1}, column {mark.column + 1}"
    return FileFormatError(f"is not valid YAML ({problem})", where=place)


def unfit(node: Any) -> str:
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
