"""Scores of grounded encoders."""
