"""Entailment: labelled sentence pairs, an encoder trained on them, and scores of its judgments."""
