"""Vectors of the sample's taxonomy that order embeddings cannot better."""

from __future__ import annotations

import numpy as np

from sightword.hypernyms.data.taxonomy import ROOT, Taxonomy


def exact_embedding(taxonomy: Taxonomy) -> np.ndarray:
    """Return (concepts, words) vectors with order energy 0 for true pairs and at least 1 for all others.

    Each word has one dimension, which is 1 where the description has the word.
    """
    words = [set() if name == ROOT else set(name.split("_")) for name in taxonomy.names]
    return np.array([[word in own for word in sorted(set().union(*words))] for own in words], np.float32)
