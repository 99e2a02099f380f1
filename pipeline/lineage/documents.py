"""YAML as DVC means it (version 1.2), read by libyaml.

A history of hundreds of lock files has to be read in seconds: the parser that keeps comments
takes ten times as long. PyYAML follows version 1.1, where ``1e-6`` is a text, ``no`` is false and 010 is eight.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from pipeline import yaml_reader
from pipeline.errors import FileFormatError, LineageError

_BASE: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_CORE = (  # section 10.3.2 of the specification; the first that fits counts
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
)


class _Loader(_BASE):  # type: ignore[misc, valid-type]  # which of the two it is, is known at run time only
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own way

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Says the line of a value that does not fit its tag."""
        try:
            return super().construct_object(node, deep)
        except yaml_reader.UNFIT:
            raise yaml.constructor.ConstructorError(None, None, yaml_reader.unfit(node), node.start_mark) from None


def _whole(loader: Any, node: Any) -> int:
    text: str = loader.construct_scalar(node)
    sign, digits = (-1 if text.startswith("-") else 1), text.lstrip("+-")
    base = {"0o": 8, "0x": 16}.get(digits[:2], 10)
    return sign * int(digits[2:] if base != 10 else digits, base)


for _tag, _pattern, _first in _CORE:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _whole)


def parse(text: str, where: object) -> Any:
    """The values of a YAML text.

    Args:
        text: the text.
        where: what to call it in a message.

    Raises:
        LineageError: it is no YAML, with line and column, or its values cannot be made in bounded time.
    """
    try:
        yaml_reader.check(text, where)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - made from the safe loader
    except FileFormatError as error:
        raise LineageError(error.what, where=error.where) from None
    except yaml.YAMLError as error:
        told = yaml_reader.invalid(error, where)
        raise LineageError(told.what, where=told.where) from None
