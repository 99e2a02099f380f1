"""Taxonomies and their pairs."""
