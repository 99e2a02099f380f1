"""Experiments: grids of parameters run side by side in clones of a commit, and tables of their results."""
