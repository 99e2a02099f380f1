"""Sightword: from pictures with captions to a sentence encoder, and to the tables that evaluate the encoder.

``import sightword`` is quick: each public name loads its module, and the packages that the module needs, at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightword.encoder.grounded import GroundedEncoder
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.features.api import extract
    from sightword.geometry.measures import structure
    from sightword.hypernyms.concepts import Concepts
    from sightword.retrieval.protocols import score
    from sightword.semantics.callbacks import SentEvalEncoder
    from sightword.semantics.evaluation import evaluate
    from sightword.semantics.word_vectors import BagOfWords

__all__ = [
    "BagOfWords",
    "Concepts",
    "GroundedEncoder",
    "SentEvalEncoder",
    "SentenceEncoder",
    "evaluate",
    "extract",
    "score",
    "structure",
]

_MODULES = {
    "BagOfWords": "sightword.semantics.word_vectors",
    "Concepts": "sightword.hypernyms.concepts",
    "GroundedEncoder": "sightword.encoder.grounded",
    "SentEvalEncoder": "sightword.semantics.callbacks",
    "SentenceEncoder": "sightword.encoder.sentence_encoder",
    "evaluate": "sightword.semantics.evaluation",
    "extract": "sightword.features.api",
    "score": "sightword.retrieval.protocols",
    "structure": "sightword.geometry.measures",
}


def __getattr__(name: str) -> Any:
    from sightword._lazy import load

    if name == "__version__":
        from importlib.metadata import version

        return version("sightword")
    return load(__name__, _MODULES, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
