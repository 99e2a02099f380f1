"""YAML as DVC reads it, by a fast parser.

A history of hundreds of lock files has to be read in seconds, and ruamel.yaml, which DVC uses, takes ten times as long
as libyaml. So libyaml parses here, and ruamel.yaml's own tables decide what a plain word means: ``1e-6`` and
``100_000_000`` are numbers, ``no`` is a text, 010 is ten.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import implicit_resolvers

from pipeline import yaml_reader
from pipeline.errors import FileFormatError, LineageError

_BASE: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE = "tag:yaml.org,2002:"
_DVC = YAML(typ="safe", pure=True).constructor


class _Loader(_BASE):  # type: ignore[misc, valid-type]  # which of the two it is, is known at run time only
    yaml_implicit_resolvers: dict[str, list[tuple[str, Any]]] = {}  # noqa: RUF012 - PyYAML's own way

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping; a key that stands twice in it is an error, as for DVC."""
        pairs = list(node.value)
        found: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        if len(found) < len(pairs) and node.value == pairs:  # where `<<` merges others in, DVC lets it pass
            seen = set()
            for key, _ in pairs:
                name = self.construct_object(key, deep=True)
                if name in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{name} stands twice", key.start_mark)
                seen.add(name)
        return found

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Says the line of a value that does not fit its tag."""
        try:
            return super().construct_object(node, deep)
        except (*yaml_reader.UNFIT, YAMLError):  # the numbers and dates are ruamel.yaml's
            raise yaml.constructor.ConstructorError(None, None, yaml_reader.unfit(node), node.start_mark) from None


def _number(kind: str) -> Any:
    read = getattr(_DVC, f"construct_yaml_{kind}")
    return lambda loader, node: read(ScalarNode(None, loader.construct_scalar(node)))


def _date(_: Any, node: Any) -> str:
    """A date as a text, since JSON has none."""
    return str(_DVC.construct_yaml_timestamp(ScalarNode(None, node.value)))


for _versions, _tag, _pattern, _first in implicit_resolvers:
    if (1, 2) in _versions:
        _Loader.add_implicit_resolver(_tag, _pattern, _first)
for _kind in ("int", "float"):
    _Loader.add_constructor(f"{_CORE}{_kind}", _number(_kind))
_Loader.add_constructor(f"{_CORE}timestamp", _date)


def parse(text: str, where: object) -> Any:
    """The values of a YAML text: those that DVC reads, and dates as texts.

    Args:
        text: the text.
        where: what to call it in a message.

    Raises:
        LineageError: it is no YAML, has a key twice, or its values cannot be made in bounded time; with line and
            column.
    """
    try:
        yaml_reader.check(text, where)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - made from the safe loader
    except FileFormatError as error:
        raise LineageError(error.what, where=error.where) from None
    except yaml.YAMLError as error:
        told = yaml_reader.invalid(error, where)
        raise LineageError(told.what, where=told.where) from None
