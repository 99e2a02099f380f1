"""The base of every section of ``params.yaml``: typed, frozen, nothing unknown; what a type accepts and what is wrong
with a value, in words; and the names of the splits.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from sightword.messages import guess, quote

SPLITS = ("train", "dev", "test")
"""The names of the publishers' splits in all tables."""
SEALED = "sealed"
"""The name of the split of held-out training pictures (``corpus.seal``)."""
BESIDE = "beside"
"""The name of the split of captions whose pictures are not in the corpus (``corpus.beside``)."""
LONGEST_TEXT = 10_000
"""The most characters of a caption, or of a sentence of ordered text."""
MAX_SEED = 2**32 - 1
"""The largest seed that all random generators in use accept."""
MOST = 10**8
"""The largest whole number of a parameter without another limit, as in the shape of a saved network."""


class Settings(BaseModel):
    """A section of the parameters; each field's docstring says what it does, with its unit and source."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if isinstance(value, int) and value > MOST and not any(hasattr(limit, "le") for limit in field.metadata):
                raise ValueError(f"{name} is {quote(value)}; expected at most {MOST:,}")
        return self

    @classmethod
    @functools.cache
    def meanings(cls) -> Mapping[str, str]:
        """Return the docstring of each field that has one, and by '' that of the section, read from the source.

        Pydantic would read them as it makes the class, for which each program and each stage would wait; and
        ``python -OO`` has none.
        """
        found: dict[str, str] = {}
        for one in reversed(cls.__mro__[: cls.__mro__.index(Settings)]):
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
            assert isinstance(definition, ast.ClassDef)
            if text := ast.get_docstring(definition):
                found[""] = text
            for pair in itertools.pairwise(definition.body):
                match pair:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                        found[name] = inspect.cleandoc(text)
        return found

    @classmethod
    def kinds(cls) -> Mapping[str, type[Settings]]:
        """Return the classes of a section by the value of its key ``format``; none if one class serves all."""
        return {}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> type[Settings]:
        """Return the class of a section with these values."""
        name = values.get("format")
        return cls.kinds().get(name, cls) if isinstance(name, str) else cls


def accepted(annotation: Any, limits: Sequence[Any] = ()) -> str:
    """Return the values that a type accepts, in words: ``whole number, at least 1``.

    Args:
        annotation: the type.
        limits: the metadata of a field, or the arguments of ``Annotated`` behind the type.
    """
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    names = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): "null"}
    if origin is typing.Annotated:
        words = accepted(arguments[0], [one for limit in arguments[1:] for one in getattr(limit, "metadata", [limit])])
    elif origin is Literal:
        words = " or ".join(f"`{value}`" for value in arguments)
    elif origin in _UNIONS:
        words = " or ".join(_apart(accepted(one)) for one in arguments)
    elif origin is dict:
        words = f"mapping of {accepted(arguments[0])} to {_apart(accepted(arguments[1]))}"
    elif origin is not None and arguments:
        inner = ", ".join(dict.fromkeys(accepted(one) for one in arguments if one is not Ellipsis))
        words = f"list of {inner}" if origin in (list, tuple) else f"{origin.__name__} of {inner}"
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        words = f"mapping with the keys {', '.join(annotation.model_fields)}"
    else:
        words = "any value" if annotation is Any else str(names.get(annotation, annotation.__name__))
    return ", ".join([words, *_limits(limits)])


def _apart(words: str) -> str:
    """Return words within others: in brackets if they have limits."""
    return f"({words})" if ", " in words else words


def _limits(limits: Sequence[Any]) -> Iterator[str]:
    words = {
        "ge": "at least {}", "gt": "above {}", "le": "at most {}", "lt": "below {}", "pattern": "of the form {}",
        "min_length": "of length {} or more", "max_length": "of length {} at most",
    }  # fmt: skip
    for limit in limits:
        found = {name: getattr(limit, name, None) for name in words}
        for name, value in found.items():
            if value is not None:
                yield "not empty" if (name, value) == ("min_length", 1) else words[name].format(value)


def explain(model: type[BaseModel], problem: Any, above: str = "") -> str:
    """Return an item of a ValidationError's ``errors()`` as a line with key, value and what is accepted.

    Args:
        model: the model whose values are wrong.
        problem: the item.
        above: the name of what has the values, such as that of a section.
    """
    place, keys, key = above, model, ""
    annotation: Any = model
    limits: Sequence[Any] = ()
    for number, part in enumerate(problem["loc"], start=1):
        inside = _bare(annotation)
        if typing.get_origin(inside) in _UNIONS:  # the part is the kind that did not fit, as pydantic spells it
            within = [one for one in typing.get_args(inside) if accepted(_bare(one)).startswith(("list", "mapping"))]
            if number == len(problem["loc"]) or not within:
                break
            annotation, limits = within[0], ()
            continue
        if part == "[key]":
            break
        if problem["type"] == "invalid_key":
            return f"{place}: the key {quote(part)} is no text"
        key = str(part)
        if isinstance(part, int):
            place += f"[{part + 1}]"
        else:
            place += f".{part}" if place else part
        if isinstance(inside, type) and issubclass(inside, BaseModel):
            keys, field = inside, inside.model_fields.get(key)
            annotation, limits = (field.annotation, field.metadata) if field else (Any, ())
        else:
            annotation, limits = typing.get_args(inside)[-1], ()
    if problem["type"] == "extra_forbidden":
        return f"{place}: no such key{guess(key, keys.model_fields) or '; accepted: ' + ', '.join(keys.model_fields)}"
    if problem["type"] == "missing":
        return f"{place}: the key is missing"
    text = accepted(annotation, limits)
    text = f"expected {text}" if text.startswith(("`", "(", "true", "any")) else f"expected a {text}"
    if problem["type"] == "value_error":
        text = str(problem["ctx"]["error"])
    elif problem["type"] == "finite_number":
        text = "expected a finite number"
    value = problem["input"]
    if problem["loc"] and not (value and isinstance(value, Mapping)):
        return f"{place} = {quote(value)}: {text}"
    return f"{place}: {text}" if place else text


def _bare(annotation: Any) -> Any:
    """Return a type without its limits, and without null if it accepts one more kind of value only."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    others = [one for one in arguments if one is not type(None)]
    return _bare(others[0]) if origin is typing.Annotated or (origin in _UNIONS and len(others) == 1) else annotation


_UNIONS = (typing.Union, types.UnionType)
