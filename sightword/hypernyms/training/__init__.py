"""Embeddings of concepts."""
