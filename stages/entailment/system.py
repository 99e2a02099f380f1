"""Declarations of the pipeline of entailment: see :mod:`pipeline.systems`."""

from __future__ import annotations

SEED = "train.seed"
