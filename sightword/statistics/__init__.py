"""Correlations, intervals, tests and the bootstrap."""
