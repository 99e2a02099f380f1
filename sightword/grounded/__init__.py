"""Judging of encoders of grounded spaces: structure, relatedness, transfer tasks, concreteness (Bordes et al. 2019)."""
