"""Geometry of a space of sentences beside that of their pictures: four structural measures and their intervals.

The public function is ``sightword.structure``; the room has another name, since a package named ``structure`` would
replace the function as soon as a module of the package is imported.
"""
