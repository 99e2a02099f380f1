"""SentEval's two callbacks as an encoder: a pair written for that program is judged here unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sightword.errors import SemanticsError
from sightword.semantics.encoding import Vectors, in_parts

Prepare = Callable[[Any, list[list[str]]], object]
"""``prepare(params, samples)``: sees all sentences, as lists of tokens, before the first batch."""
Batcher = Callable[[Any, list[list[str]]], Any]
"""``batcher(params, batch)``: the vectors (N, D) of N sentences, each a list of tokens."""

DEFAULTS: Mapping[str, Any] = {
    "usepytorch": True,
    "seed": 1111,
    "batch_size": 128,
    "nhid": 0,
    "kfold": 5,
    "classifier": {"nhid": 0},
}
"""What SentEval itself puts into the parameters where the caller does not (``senteval/engine.py``)."""


class Params(dict[str, Any]):
    """SentEval's parameters: ``params.name`` is ``params["name"]``, and None where there is no such key."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks for, as when one is copied
            raise AttributeError(name)
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        del self[name]


class SentEvalEncoder:
    """An encoder for :func:`sightword.evaluate` made of SentEval's ``prepare`` and ``batcher``.

    Args:
        batcher: from the parameters and a list of sentences, each a list of tokens (``["."]`` for an empty
            one), to their vectors; it gets at most ``params.batch_size`` at once.
        prepare: given the parameters and all distinct sentences of all tasks, once, before the first batch.
        params: what SentEval would be given; a copy of it, with SentEval's defaults, is what both get.

    Raises:
        SemanticsError: ``batch_size`` is no whole number of at least 1.
    """

    def __init__(
        self, batcher: Batcher, prepare: Prepare | None = None, params: Mapping[str, Any] | None = None
    ) -> None:
        self.params = Params({**DEFAULTS, "classifier": dict(DEFAULTS["classifier"]), **(params or {})})
        size = self.params.batch_size
        if not isinstance(size, int) or size < 1:
            raise SemanticsError(f"batch_size is {size!r}", expected="a whole number of at least 1")
        self._batcher, self._prepare = batcher, prepare

    def prepare(self, sentences: list[str]) -> None:
        """Show all sentences to the pair's own ``prepare``."""
        if self._prepare is not None:
            self._prepare(self.params, [_tokens(sentence) for sentence in sentences])

    def __call__(self, sentences: list[str]) -> Vectors:
        """The vectors (N, D) of N sentences.

        Raises:
            SemanticsError: the batcher's answer is no array of one finite vector for each sentence.
        """
        return in_parts(
            lambda batch: self._batcher(self.params, [_tokens(sentence) for sentence in batch]),
            sentences,
            self.params.batch_size,
        )


def _tokens(sentence: str) -> list[str]:
    return [token for token in sentence.split(" ") if token] or ["."]  # Latin-1 texts have other spaces within tokens
