"""Experiments: grids of parameters run side by side, and tables of what experiments reached.

``grid`` and ``plan`` read and expand a grid file; ``baseline`` checks the result against git and DVC; ``jobs`` puts
shared stages first; ``slots``, ``clones``, ``runner`` and ``reaper`` run the jobs in clones of the commit, one for each
GPU or share of the cores; ``sweep`` holds the steps of the command. Each experiment is one ``dvc exp run``, and DVC's
references show which are done. ``results`` and ``figure`` make tables and drawings of experiments.
"""
