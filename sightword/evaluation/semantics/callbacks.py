"""Wraps SentEval's two callbacks as an encoder, so that code written for SentEval runs unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sightword.errors import SemanticsError
from sightword.evaluation.semantics.encoding import Vectors, encode_in_lists

Prepare = Callable[[Any, list[list[str]]], object]
"""``prepare(params, samples)``: receives all sentences, as lists of tokens, before the first batch."""
Batcher = Callable[[Any, list[list[str]]], Any]
"""``batcher(params, batch)``: returns the vectors (N, D) of N sentences, each a list of tokens."""

DEFAULTS: Mapping[str, Any] = {"usepytorch": True, "seed": 1111, "batch_size": 128, "nhid": 0, "kfold": 5}
"""SentEval's defaults for missing parameters (``senteval/engine.py``), besides ``classifier``."""


class Params(dict[str, Any]):
    """SentEval's parameters: ``params.name`` is ``params["name"]``, or None for a missing key."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own look-ups, such as when copying
            raise AttributeError(name)
        return self.get(name)

    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class SentEvalEncoder:
    """An encoder for :func:`sightword.evaluate` made of SentEval's ``prepare`` and ``batcher``.

    Both receive SentEval's parameters, with its defaults, and sentences as lists of tokens (``["."]`` for an empty
    sentence): ``prepare`` all distinct sentences of all tasks once, before the first batch; ``batcher`` at most
    ``params.batch_size``, a whole number of at least 1 (else SemanticsError).
    """

    def __init__(
        self, batcher: Batcher, prepare: Prepare | None = None, params: Mapping[str, Any] | None = None
    ) -> None:
        self.params = Params({**DEFAULTS, "classifier": {"nhid": 0}, **(params or {})})
        size = self.params.batch_size
        if not isinstance(size, int) or size < 1:
            raise SemanticsError(f"batch_size is {size!r}", expected="a whole number of at least 1")
        self._batcher, self._prepare = batcher, prepare

    def prepare(self, sentences: list[str]) -> None:
        """Pass all sentences to the callback ``prepare``."""
        if self._prepare is not None:
            self._prepare(self.params, [_tokens(sentence) for sentence in sentences])

    def __call__(self, sentences: list[str]) -> Vectors:
        """Return the vectors (N, D) of N sentences; SemanticsError unless the batcher gives each one finite vector."""

        def encode(batch: list[str]) -> Any:
            return self._batcher(self.params, [_tokens(sentence) for sentence in batch])

        return encode_in_lists(encode, sentences, self.params.batch_size)


def _tokens(sentence: str) -> list[str]:
    # Not split(): tokens of Latin-1 texts hold other spaces.
    return [token for token in sentence.split(" ") if token] or ["."]
