"""Trains cones on the edges of a tree, with a checkpoint twenty times a second: ``python -m killed_embedding FOLDER``.

The vectors go to ``FOLDER/vectors.npy``, the checkpoint is in ``FOLDER`` too.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np

from sightword.hypernyms.data.pairs import ConceptPairs
from sightword.hypernyms.training import task as training
from sightword.hypernyms.training.settings import EmbedSettings
from sightword.training import engine
from sightword.training.checkpoint import Checkpoint

CONCEPTS = 341
SETTINGS = EmbedSettings(energy="cone", dimension=3, batch=20, epochs=40, rate=0.3, pretrain=3, validate_every=50)


def main(folder: Path) -> None:
    """Train, or go on."""
    logging.basicConfig(level=logging.INFO)
    engine.SECONDS = 0.05
    low = np.arange(1, CONCEPTS, dtype=np.int32)
    yes = np.ones(len(low), bool)
    true = ConceptPairs(low, (low - 1) // 4, yes, yes, np.zeros(len(low), np.int8))
    false = ConceptPairs(true.hypernyms, low, ~yes, ~yes, true.replaced)
    dev = ConceptPairs(*(np.concatenate([getattr(part, name) for part in (true, false)]) for name in vars(true)))
    found = training.train(SETTINGS, true, dev, CONCEPTS, checkpoint=Checkpoint(folder))
    np.save(folder / "vectors.npy", found.vectors)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
