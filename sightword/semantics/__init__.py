"""Semantics: does an encoder put sentences that mean the same close to each other?

``evaluate`` is the door: a function from sentences to vectors in, the dictionary of
``metrics/semantics.json`` out, by SentEval's protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightword.semantics.callbacks import SentEvalEncoder as SentEvalEncoder
    from sightword.semantics.evaluation import evaluate as evaluate
    from sightword.semantics.word_vectors import BagOfWords as BagOfWords

__all__ = ["BagOfWords", "SentEvalEncoder", "evaluate"]

_LAZY = {
    "BagOfWords": "sightword.semantics.word_vectors",
    "SentEvalEncoder": "sightword.semantics.callbacks",
    "evaluate": "sightword.semantics.evaluation",
}


def __getattr__(name: str) -> Any:
    from sightword._lazy import load

    return load(__name__, _LAZY, name)
