"""Corpora as their publishers ship them, and a generated sample, as plain tables of pictures and captions."""
