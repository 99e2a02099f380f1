"""Rows of results: what a recipe scored, with the runs that made it, in files that git has."""
