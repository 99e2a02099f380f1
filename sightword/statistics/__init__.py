"""Intervals, tests, resampling."""
