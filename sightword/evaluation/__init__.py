"""Evaluation: retrieval, sentence similarity, structure of spaces, binary decisions."""
