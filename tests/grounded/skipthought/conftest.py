from __future__ import annotations

import numpy as np
import pytest
from small_text import text_of


@pytest.fixture(scope="session")
def random_text():
    """300 sentences of 1 to 11 words of 18, in passages of ten, the last two passages held out."""
    random = np.random.default_rng(5)
    rows = [random.integers(1, 20, random.integers(1, 12)) for _ in range(300)]
    return text_of(rows, words=20, passages=np.arange(300) // 10, held_out=range(280, 300), max_tokens=12)
