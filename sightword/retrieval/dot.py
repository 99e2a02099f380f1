"""The dot product of two embeddings, in which their lengths weigh."""

from __future__ import annotations

import numpy as np

from sightword.errors import ScoringError
from sightword.retrieval.cosine import Cosine, Side
from sightword.retrieval.inputs import Embeddings
from sightword.retrieval.similarity import LONGEST


class Dot(Cosine):
    """Embeddings are taken as they are.

    Each side is divided by a power of two that brings its longest row to a length below 1. The division rounds
    nothing, and a product of such rows errs no more than a cosine does. The width of a tie is the same for all pairs:
    the largest error of float64 for the longest rows.

    Raises:
        ScoringError: rows too long to be multiplied.
    """

    def side(self, embeddings: Embeddings) -> Side:
        """Rows of length 1 at most."""
        longest = float(np.sqrt(embeddings.squares.max()))
        if longest > LONGEST:
            raise ScoringError(
                "embeddings are too long for the dot product",
                where=embeddings.name,
                expected=f"a length of at most {LONGEST:g}",
            )
        power = int(np.frexp(longest)[1])
        self.unit *= 2.0**power
        return Side(embeddings, np.full(len(embeddings), 2.0**-power))
