"""Sweeps: a grid of parameters as experiments of DVC, run side by side.

A grid file is checked whole and expanded (``grid``, ``plan``), held against what git and DVC have (``ground``),
ordered so that common stages run once (``jobs``), and run in copies of the commit, one for each GPU or share of the
cores (``slots``, ``copies``, ``work``). Each experiment is one ``dvc exp run`` and is kept as DVC keeps it; from there
it is known what is done.
"""
