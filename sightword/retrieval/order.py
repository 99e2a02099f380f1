"""The order similarity, ``-sum_d max(0, c_d - i_d)^2`` of caption c and picture i (Vendrov et al. 2016, section 3,
no root taken), and its reverse, ``-sum_d max(0, i_d - c_d)^2``.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.errors import ScoringError
from sightword.model.similarity import tie_width
from sightword.retrieval.inputs import Embeddings, Which
from sightword.retrieval.penalty import STEP, compiled, errors
from sightword.retrieval.similarity import LONGEST, ROUND, Similarity, outwards

_SPLIT = 2.0**29 + 1


class Order(Similarity):
    """Embeddings are taken as they are.

    A sum of squares errs by a share of itself, so ties are as wide as a share of the score, and a score of 0 ties with
    0 only.

    Args:
        images: (N, D).
        captions: (M, D).
        device: where scores of blocks are computed.
        reverse: penalise what a picture exceeds its caption by.

    Raises:
        ScoringError: rows too long to be squared twice.
    """

    def __init__(
        self, images: Embeddings, captions: Embeddings, device: torch.device, *, reverse: bool = False
    ) -> None:
        super().__init__(images, captions, device)
        self._sign = -1.0 if reverse else 1.0  # max(0, i - c) is max(0, (-c) - (-i))
        longest = np.sqrt([float(side.squares.max()) for side in (images, captions)])
        if longest.max() > LONGEST:
            raise ScoringError(
                "embeddings are too long for the order similarity", expected=f"a length of at most {LONGEST:g}"
            )
        # A power of two, which rounds nothing, brings the longest row near 1: float32 squares neither overflow nor,
        # where it matters, vanish.
        power = -int(np.clip(np.frexp(longest.max())[1], -400, 470)) if longest.max() > 0 else 0
        self._scale = 2.0**power
        self._share = tie_width(self.dimensions)
        # How far rounding the rows can move a difference, as a length; the root of an error moves no farther.
        self._moved = ROUND * float(longest.sum()) * self._scale + np.sqrt(self.dimensions) * 2.0**-125
        # Then the difference, its square, STEP of them added up, and those sums.
        self._rounding = (STEP + -(-self.dimensions // STEP) + 8) * ROUND
        self._vanished = self.dimensions * 2.0**-125
        self._fused = compiled(float(len(images)) * len(captions) * self.dimensions, device)

    def _pairs(self, captions: Which, images: NDArray[np.int64]) -> NDArray[np.float64]:
        excess = self.captions.rows(captions) - self.images.rows(images)
        excess *= self._sign
        np.maximum(excess, 0.0, out=excess)
        score: NDArray[np.float64] = -np.einsum("nd,nd->n", excess, excess)
        return score

    def exact(self, captions: Which, images: Which) -> torch.Tensor:
        """Dimension by dimension."""
        ours, theirs = (
            torch.from_numpy(side.rows(which) * self._sign).to(self.device)
            for side, which in ((self.captions, captions), (self.images, images))
        )
        found = ours.new_empty(len(ours), len(theirs))
        errors(ours, theirs, found, None)
        return found.neg_()

    def rough_captions(self, which: slice) -> torch.Tensor:
        """Scaled, and turned round for the reverse."""
        return self._rough_rows(self.captions, which)

    def rough_images(self, which: slice) -> torch.Tensor:
        """Scaled, and turned round for the reverse."""
        return self._rough_rows(self.images, which)

    def _rough_rows(self, side: Embeddings, which: slice) -> torch.Tensor:
        rows = side.rows(which) * (self._sign * self._scale)
        return torch.from_numpy(rows.astype(np.float32)).to(self.device)

    def rough(self, captions: torch.Tensor, images: torch.Tensor, out: torch.Tensor, spare: torch.Tensor) -> None:
        """Of scaled embeddings."""
        del spare
        errors(captions, images, out, self._fused)
        out.neg_()

    def bar(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lower by the width of a tie."""
        return score - self._share * np.abs(score)

    def window(self, bar: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """As far from the bar as a rough score can err, of scaled embeddings."""
        root = np.sqrt(-bar) * self._scale
        most = (root + self._moved) ** 2 * (1 + self._rounding) + self._vanished
        least = np.maximum(root - self._moved, 0.0) ** 2 * (1 - self._rounding) - self._vanished
        return outwards(-most, -least)

    def ceiling(self, rough: NDArray[np.float32]) -> NDArray[np.float64]:
        """Higher by what it can err, and scaled back."""
        least = np.maximum(-rough.astype(np.float64) - self._vanished, 0.0) / (1 + self._rounding)
        found: NDArray[np.float64] = -((np.maximum(np.sqrt(least) - self._moved, 0.0) / self._scale) ** 2)
        return found

    def rounded(self, scores: torch.Tensor) -> torch.Tensor:
        """To 24 bits, so to a share of 6e-8 (Veltkamp's splitting)."""
        larger = scores * _SPLIT
        return larger - (larger - scores)

    def lowered(self, rounded: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """By a share of the score, since scores have any size, and where it is 0, by next to nothing."""
        return rounded * (1.0 + place * 2.0**-46) - place * 1e-300
