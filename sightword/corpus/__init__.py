"""Reads published corpora and generates a sample, as plain tables of pictures and captions."""
