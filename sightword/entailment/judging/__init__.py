"""Scores of predicted entailment."""
