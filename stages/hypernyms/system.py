"""Declarations of the pipeline of hypernyms: see :mod:`pipeline.systems`."""

from __future__ import annotations

SEED = "train.seed"
