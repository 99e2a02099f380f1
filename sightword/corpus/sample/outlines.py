"""The outlines of the sample's objects, as polygons in a circle of radius 1 around the origin (y points down)."""

from __future__ import annotations

import math

Polygon = list[tuple[float, float]]


def outline(name: str) -> tuple[Polygon, Polygon | None]:
    """Return the polygon of an outline and its hole, or None without a hole.

    Raises:
        KeyError: the outline is unknown.
    """
    return _OUTLINES[name]


def _regular(corners: int, radius: float = 1.0, turn: float = -math.pi / 2) -> Polygon:
    angles = (turn + 2 * math.pi * step / corners for step in range(corners))
    return [(radius * math.cos(angle), radius * math.sin(angle)) for angle in angles]


def _star(points: int, inner: float) -> Polygon:
    tips, dents = _regular(points), _regular(points, inner, -math.pi / 2 + math.pi / points)
    return [corner for pair in zip(tips, dents, strict=True) for corner in pair]


def _heart() -> Polygon:
    angles = [2 * math.pi * step / 80 for step in range(80)]
    across = [16 * math.sin(a) ** 3 for a in angles]
    down = [5 * math.cos(2 * a) + 2 * math.cos(3 * a) + math.cos(4 * a) - 13 * math.cos(a) for a in angles]
    return [(x / 17, (y - 2.5) / 17) for x, y in zip(across, down, strict=True)]


def _cross(arm: float = 0.34, reach: float = 0.94) -> Polygon:
    quarter = [(-arm, -reach), (arm, -reach), (arm, -arm)]
    corners: Polygon = []
    for _ in range(4):
        corners += quarter
        quarter = [(-y, x) for x, y in quarter]
    return corners


def _flower(petals: int = 6) -> Polygon:
    angles = [2 * math.pi * step / 180 for step in range(180)]
    radii = [0.6 + 0.4 * abs(math.cos(petals / 2 * angle)) ** 0.6 for angle in angles]
    return [(r * math.sin(a), -r * math.cos(a)) for r, a in zip(radii, angles, strict=True)]


_OUTLINES: dict[str, tuple[Polygon, Polygon | None]] = {
    "circle": (_regular(72, 0.95), None),
    "square": (_regular(4, 1.18, math.pi / 4), None),
    "triangle": (_regular(3, 1.08), None),
    "star": (_star(5, 0.42), None),
    "heart": (_heart(), None),
    "ring": (_regular(72), _regular(72, 0.56)),
    "cross": (_cross(), None),
    "diamond": ([(0, -1.06), (0.7, 0), (0, 1.06), (-0.7, 0)], None),
    "flower": (_flower(), _regular(24, 0.2)),
}
