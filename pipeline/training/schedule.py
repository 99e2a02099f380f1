"""The cyclic learning rate."""

from __future__ import annotations

import math


def cyclic_rate(step: int, cycle: int, lowest: float, highest: float) -> float:
    """The learning rate of batch ``step``, counted from 0, by the released code of Merkx & Frank (2019).

    It rises from ``lowest`` to ``highest`` in half a cycle and falls back in the other
    half, along a cosine. (The formula printed in the paper, section 3.4, has no minimum at
    a cycle's end.)

    Args:
        step: batches done before this one.
        cycle: batches in a cycle.
        lowest: rate at both ends of a cycle.
        highest: rate in its middle.
    """
    return (highest - lowest) * 0.5 * (1 + math.cos(math.pi * (1 + 2 * step / cycle))) + lowest
