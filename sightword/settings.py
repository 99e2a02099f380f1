"""The base of every section of ``params.yaml``: typed, frozen, nothing unknown; and the names of the splits."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

SPLITS = ("train", "dev", "test")
"""The names of the publishers' splits in all tables."""
SEALED = "sealed"
"""The name of the split of held-out training pictures (``corpus.seal``)."""
BESIDE = "beside"
"""The name of the split of captions whose pictures are not in the corpus (``corpus.beside``)."""
MAX_SEED = 2**32 - 1
"""The largest seed that all random generators in use accept."""


class Settings(BaseModel):
    """A section of the parameters; each field's docstring says what it does, with its unit and source."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @classmethod
    @functools.cache
    def meanings(cls) -> Mapping[str, str]:
        """Return the docstring of each field that has one, read from the source.

        Pydantic would read them as it makes the class, for which each program and each stage would wait.
        """
        found: dict[str, str] = {}
        for one in reversed(cls.__mro__[: cls.__mro__.index(Settings)]):
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
            assert isinstance(definition, ast.ClassDef)
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
