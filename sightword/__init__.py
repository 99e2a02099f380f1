"""Sightword: from pictures with captions to a sentence encoder, and to the tables that evaluate the encoder.

``import sightword`` is quick: each public name loads its module, and the packages that the module needs, at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.encoder.word_vectors import BagOfWords
    from sightword.evaluation.retrieval.protocols import score
    from sightword.evaluation.semantics.evaluation import evaluate
    from sightword.evaluation.structure import structure
    from sightword.features.compute import extract
    from sightword.features.settings import FeaturesSettings
    from sightword.hypernyms.training.concepts import Concepts
    from sightword.images.settings import ResizeSettings
    from sightword.search.opening import open_search

__all__ = [
    "BagOfWords",
    "Concepts",
    "FeaturesSettings",
    "ResizeSettings",
    "SentenceEncoder",
    "evaluate",
    "extract",
    "open_search",
    "score",
    "structure",
]

_MODULES = {
    "BagOfWords": "sightword.encoder.word_vectors",
    "Concepts": "sightword.hypernyms.training.concepts",
    "FeaturesSettings": "sightword.features.settings",
    "ResizeSettings": "sightword.images.settings",
    "SentenceEncoder": "sightword.encoder.sentence_encoder",
    "evaluate": "sightword.evaluation.semantics.evaluation",
    "extract": "sightword.features.compute",
    "open_search": "sightword.search.opening",
    "score": "sightword.evaluation.retrieval.protocols",
    "structure": "sightword.evaluation.structure",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        from importlib.metadata import version

        return version("sightword")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        from sightword.messages import install_extra

        extra = "search" if name == "open_search" else "pipeline"
        what = f"{__name__}.{name} needs {error.name}, which is not installed. {install_extra(extra)}"
        raise ModuleNotFoundError(what, name=error.name) from error


def __dir__() -> list[str]:
    return [*globals(), *__all__]
