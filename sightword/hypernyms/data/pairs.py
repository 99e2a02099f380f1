"""Labelled pairs of one split, as the stages pass them on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

REPLACED = ("", "hyponym", "hypernym")


@dataclass(frozen=True)
class ConceptPairs:
    """Labelled pairs of one split."""

    hyponyms: NDArray[np.int32]
    hypernyms: NDArray[np.int32]
    labels: NDArray[np.bool_]
    direct: NDArray[np.bool_]
    """Whether the pair is an edge of the taxonomy."""
    replaced: NDArray[np.int8]
    """The replaced side of a false pair, as a place in :data:`REPLACED`; 0 for true pairs and where unknown."""

    def where(self, rows: NDArray[Any]) -> ConceptPairs:
        """Return some rows."""
        return ConceptPairs(*(getattr(self, name)[rows] for name in ConceptPairs.__dataclass_fields__))
