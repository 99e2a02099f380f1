"""Geometry of a space of sentences beside that of their pictures: four structural measures and their intervals."""
