"""Draws a scene at twice its size and scales the picture down, so that edges are smooth."""

from __future__ import annotations

import colorsys
import math
import random
from typing import NamedTuple

from PIL import Image, ImageChops, ImageDraw, ImageFilter

from sightword.corpus.sample.scene import Group, Scene
from sightword.corpus.sample.textures import RGB, fill, gradient, mix, rgb
from sightword.corpus.sample.world import World

_OVERSAMPLING = 2
_SMALLER_WITH_TWO = 0.8
"""The size of objects in a scene of two groups, relative to one group."""

_DARKNESS = [round(0.4 * value) for value in range(256)]
"""The darkness of a shadow by the value of its mask."""


Polygon = list[tuple[float, float]]


class _Cell(NamedTuple):
    """The area of one group: its centre and its extent, in pixels."""

    x: float
    y: float
    width: float
    height: float


def draw_scene(scene: Scene, size: tuple[int, int], world: World, rng: random.Random) -> Image.Image:
    """Draw a scene with all its parts as an RGB picture of a width and height in pixels."""
    assert scene.background is not None
    large = (size[0] * _OVERSAMPLING, size[1] * _OVERSAMPLING)
    ground = world.backgrounds[scene.background]
    first, second, third = (rgb(paint) for paint in ground.paint)
    canvas = fill(ground.texture, large, (first, second, third), rng)
    # The outer object is drawn first, so that the inner object lies on top.
    order = list(zip(scene.groups, _cells(scene, large, world), strict=True))
    for group, cell in reversed(order) if scene.layout == "inside" else order:
        _draw_group(canvas, group, cell, scene, world, rng)
    return canvas.reduce(_OVERSAMPLING)


def _cells(scene: Scene, size: tuple[int, int], world: World) -> list[_Cell]:
    width, height = size
    if len(scene.groups) == 1:
        x, y = world.places[scene.layout or ""].at
        # The widest cell around the place that stays in the picture.
        return [_Cell(x * width, y * height, 2 * min(x, 1 - x) * width, 2 * min(y, 1 - y) * height)]
    whole = _Cell(width / 2, height / 2, width, height)
    left, right = (_Cell(share * width, height / 2, width / 2, height) for share in (0.26, 0.74))
    top, bottom = (_Cell(width / 2, share * height, width, height / 2) for share in (0.26, 0.74))
    cells = {"left": [left, right], "right": [right, left], "above": [top, bottom], "below": [bottom, top]}
    return cells.get(scene.layout or "", [whole, whole])


def _draw_group(canvas: Image.Image, group: Group, cell: _Cell, scene: Scene, world: World, rng: random.Random) -> None:
    nested = scene.layout in ("inside", "around")
    scale = world.size_words[group.size or ""].scale
    largest = max(word.scale for word in world.size_words.values())
    wanted = 0.94 if nested and scale == largest else largest * (_SMALLER_WITH_TWO if len(scene.groups) == 2 else 1)
    offsets, diameter = _arrange(group.count, cell, wanted * min(canvas.size), rng)
    # 'large' means the largest diameter that fits; 'small' is always smaller by the same share.
    share = scale / largest * (0.82 if nested and scale < largest else 1)
    apart = diameter * (1 + share) / 2
    wobble = 0.0 if nested else 0.03 * diameter
    for x, y in offsets:
        middle = cell.x + x * apart + rng.uniform(-wobble, wobble), cell.y + y * apart + rng.uniform(-wobble, wobble)
        _draw_object(canvas, group, middle, diameter * share * rng.uniform(0.94, 1.0), world, rng)


def _arrange(count: int, cell: _Cell, wanted: float, rng: random.Random) -> tuple[Polygon, float]:
    """Return the centres of objects of diameter 1, and the diameter, in the arrangement with the largest objects."""
    step = 1.08
    options = [[((index - (count - 1) / 2) * step, 0.0) for index in range(count)]]
    options.append([(y, x) for x, y in options[0]])
    if count == 3:
        options.append([(0.0, -0.45), (-0.54, 0.48), (0.54, 0.48)])
    rng.shuffle(options)

    def largest(option: Polygon) -> float:
        wide = max(x for x, _ in option) - min(x for x, _ in option) + 1
        tall = max(y for _, y in option) - min(y for _, y in option) + 1
        return min(wanted, 0.96 * cell.width / wide, 0.96 * cell.height / tall)

    best = max(options, key=largest)
    return best, largest(best)


def _draw_object(
    canvas: Image.Image, group: Group, middle: tuple[float, float], diameter: float, world: World, rng: random.Random
) -> None:
    """Draw one object with a soft shadow, an edge and light from above."""
    radius = diameter / 2
    edge = max(2.0, 0.035 * diameter)
    box = math.ceil(diameter * 1.5)
    turn = rng.uniform(-0.22, 0.22)
    polygon, hole = _OUTLINES[world.shapes[group.shape].outline]
    mask = _mask(polygon, hole, radius, turn, box)
    inner = _mask(polygon, hole, radius, turn, box, shrink=edge)
    paint = _shade(rgb(world.colours[group.colour].paint), rng)
    corner = (round(middle[0] - box / 2), round(middle[1] - box / 2))

    shadow = ImageChops.offset(mask, round(0.05 * diameter), round(0.06 * diameter))
    shadow = shadow.filter(ImageFilter.BoxBlur(0.04 * diameter)).point(_DARKNESS)
    canvas.paste((0, 0, 0), (*corner, corner[0] + box, corner[1] + box), shadow)
    bright = sum(paint) > 150
    canvas.paste(mix(paint, (0, 0, 0), 0.55) if bright else (150, 150, 160), corner, mask)
    canvas.paste(gradient((box, box), mix(paint, (255, 255, 255), 0.16), mix(paint, (0, 0, 0), 0.12)), corner, inner)


def _mask(
    polygon: Polygon, hole: Polygon | None, radius: float, turn: float, box: int, shrink: float = 0.0
) -> Image.Image:
    cos, sin = math.cos(turn), math.sin(turn)
    mask = Image.new("L", (box, box), 0)
    draw = ImageDraw.Draw(mask)
    for outline, colour in ((polygon, 255), (hole, 0)):
        turned = [(x * cos - y * sin, x * sin + y * cos) for x, y in outline or ()]
        points = [(box / 2 + radius * x, box / 2 + radius * y) for x, y in turned]
        if points:
            draw.polygon(points, fill=colour)
        if points and shrink:
            # A thick line along the border removes it from the inside of any outline.
            draw.line([*points, points[0], points[1]], fill=0, width=round(2 * shrink), joint="curve")
    return mask


def _shade(paint: RGB, rng: random.Random) -> RGB:
    """Vary hue, lightness and saturation slightly, as another lamp would."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*(value / 255 for value in paint))
    moved = colorsys.hls_to_rgb(
        (hue + rng.uniform(-0.012, 0.012)) % 1,
        min(1.0, max(0.0, lightness + rng.uniform(-0.03, 0.03))),
        min(1.0, saturation * rng.uniform(0.92, 1.0)),
    )
    red, green, blue = (round(255 * value) for value in moved)
    return red, green, blue


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
"""Polygons in a circle of radius 1 around the origin (y points down), each with its hole."""
