"""Captions as sequences of numbers: normalisation, vocabulary, and the table that training reads."""
