"""A few concepts as order-embeddings in the plane (Vendrov et al. 2016, Figure 2)."""

from __future__ import annotations

import numpy as np

from sightword.errors import CorpusError
from sightword.hypernyms.data.corruption import PairSet, corruptible
from sightword.hypernyms.data.pairs import ConceptPairs
from sightword.hypernyms.data.taxonomy import Taxonomy, closure
from sightword.hypernyms.training.settings import EmbedSettings, PlaneSettings
from sightword.hypernyms.training.task import train
from sightword.messages import guess

Points = dict[str, tuple[float, float]]


def in_the_plane(taxonomy: Taxonomy, settings: PlaneSettings) -> tuple[Points, list[tuple[str, str]], float]:
    """Return two coordinates for each named concept, the direct edges among them, and the share of their pairs with
    an energy below half the margin, in percent.

    An edge is direct if no named concept lies between its ends.

    Raises:
        CorpusError: a concept is unknown or named twice, or no named concept is above another.
    """
    ids = taxonomy.id_of()
    for name in settings.concepts:
        if name not in ids or settings.concepts.count(name) > 1:
            what = f"has no concept {name}{guess(name, ids)}" if name not in ids else f"{name} is named twice"
            raise CorpusError(what, where="plane.concepts", todo="Name other concepts.")
    known = PairSet(*closure(taxonomy), len(ids))
    own = np.array([ids[name] for name in settings.concepts], np.int32)
    count = len(own)
    above = known.has(np.repeat(own, count), np.tile(own, count)).reshape(count, count)
    direct = above & ~(above @ above)
    low, high = (side.astype(np.int32) for side in np.nonzero(above))
    if len(low) < 2:
        raise CorpusError("has fewer than two pairs of hyponym and hypernym", where="plane.concepts")
    true = np.ones(len(low), bool)
    pairs = ConceptPairs(low, high, true, direct[low, high], np.zeros(len(low), np.int8))
    half = max(1, int(corruptible(low, high, PairSet(low, high, count)).sum()))
    plain = {"dimension": 2, "batch": 2 * half, "validate_every": settings.epochs}
    embed = EmbedSettings.model_validate({**plain, **settings.model_dump(exclude={"concepts"})})
    found = train(embed, pairs, None, count)
    vectors = found.vectors
    energies = (np.maximum(vectors[high] - vectors[low], 0) ** 2).sum(axis=1)
    points = {name: (float(x), float(y)) for name, (x, y) in zip(settings.concepts, vectors, strict=True)}
    edges = [(settings.concepts[a], settings.concepts[b]) for a, b in np.argwhere(direct)]
    return points, edges, 100.0 * float((energies < settings.margin / 2).mean())
