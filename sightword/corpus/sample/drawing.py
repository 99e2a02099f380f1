"""Draws the sample: its scenes, at twice their size and scaled down, so that edges are smooth."""

from __future__ import annotations

import colorsys
import math
import random
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageChops, ImageDraw, ImageFilter
from tqdm import tqdm

from sightword.corpus.records import Caption, Corpus
from sightword.corpus.records import Image as ImageRecord
from sightword.corpus.sample.scene import Group, Scene, World, scenes_of, stream
from sightword.corpus.sample.sentences import attributes, captions
from sightword.settings import SPLITS

_OVERSAMPLING = 2
_SMALLER_WITH_TWO = 0.8
"""The size of objects in a scene of two groups, relative to one group."""

_DARKNESS = [round(0.4 * value) for value in range(256)]
"""The darkness of a shadow by the value of its mask."""


Polygon = list[tuple[float, float]]
RGB = tuple[int, int, int]
Paints = tuple[RGB, RGB, RGB]


class _Cell(NamedTuple):
    """The area of one group: its centre and its extent, in pixels."""

    x: float
    y: float
    width: float
    height: float


def make_sample(world: World, pictures: Path, *, progress: bool = False) -> Corpus:
    """Draw every picture, PNG and JPEG files of several sizes in an existing folder, and return them with captions.

    CorpusError if the world has too few different scenes.
    """
    scenes = [(split, number, scene) for split in SPLITS for number, scene in enumerate(scenes_of(world, split))]
    images: list[ImageRecord] = []
    texts: list[Caption] = []
    drawn: list[tuple[str, str]] = []
    for split, number, scene in tqdm(scenes, desc="drawing", unit="picture", disable=None if progress else True):
        rng = stream(world, split, number, "picture")
        width, height = rng.choice(world.sizes)
        as_jpeg = rng.random() < world.jpeg
        name = f"{split}-{number:04}.{'jpg' if as_jpeg else 'png'}"
        options: dict[str, Any] = {"quality": 92, "subsampling": 0} if as_jpeg else {}
        draw_scene(scene, (width, height), world, rng).save(pictures / name, **options)
        images.append(ImageRecord(name, name, split))
        drawn += [(name, words) for words in attributes(scene, world)]
        own = captions(scene, world, stream(world, split, number, "captions"))
        texts += [Caption(name, str(key), text) for key, text in enumerate(own)]
    by_id = sorted(range(len(images)), key=lambda place: images[place].image_id)
    captioned = sorted(texts, key=lambda text: text.image_id)
    return Corpus([images[place] for place in by_id], by_id, captioned, drawn=sorted(drawn))


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


def _cross() -> Polygon:
    quarter = [(-0.34, -0.94), (0.34, -0.94), (0.34, -0.34)]
    corners: Polygon = []
    for _ in range(4):
        corners += quarter
        quarter = [(-y, x) for x, y in quarter]
    return corners


def _flower() -> Polygon:
    angles = [2 * math.pi * step / 180 for step in range(180)]
    radii = [0.6 + 0.4 * abs(math.cos(3 * angle)) ** 0.6 for angle in angles]
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


def rgb(paint: str) -> RGB:
    """Return the three numbers of ``#rrggbb``."""
    return int(paint[1:3], 16), int(paint[3:5], 16), int(paint[5:7], 16)


def mix(one: RGB, other: RGB, share: float) -> RGB:
    """Blend ``one`` with the share ``share`` of ``other``."""
    r, g, b = (round(a + (c - a) * share) for a, c in zip(one, other, strict=True))
    return r, g, b


def fill(texture: str, size: tuple[int, int], paints: Paints, rng: random.Random) -> Image.Image:
    """Draw a background of a width and height in pixels; the use of the three paints depends on the texture."""
    canvas = gradient(size, paints[0], mix(paints[0], paints[1], 0.35))
    _TEXTURES[texture](canvas, ImageDraw.Draw(canvas), paints, rng)
    return canvas


def gradient(size: tuple[int, int], top: RGB, bottom: RGB) -> Image.Image:
    """Return a picture that changes from one colour at the top to another at the bottom."""
    mask = Image.linear_gradient("L").crop((0, 0, 1, 256)).resize((1, size[1]), Image.Resampling.BILINEAR)
    column = Image.composite(Image.new("RGB", mask.size, bottom), Image.new("RGB", mask.size, top), mask)
    return column.resize(size, Image.Resampling.NEAREST)


def _ridge(canvas: Image.Image, level: float, height: float, waves: float, phase: float) -> list[tuple[float, float]]:
    """Return the outline of rolling land; level and height are shares of the picture's height."""
    width, tall = canvas.size
    steps = [step / 48 for step in range(49)]
    line = [(x * width, tall * (level - height * math.sin(phase + x * waves * 2 * math.pi))) for x in steps]
    return [*line, (width, tall), (0, tall)]


def _hills(canvas: Image.Image, draw: ImageDraw.ImageDraw, paints: Paints, rng: random.Random) -> None:
    width, tall = canvas.size
    x, y, r = rng.uniform(0.1, 0.9) * width, 0.12 * tall, 0.07 * tall
    draw.ellipse((x - r, y - r, x + r, y + r), fill=(255, 244, 170))
    draw.polygon(_ridge(canvas, 0.42, 0.06, 1.1, rng.uniform(0, 6)), fill=paints[1])
    draw.polygon(_ridge(canvas, 0.62, 0.05, 0.8, rng.uniform(0, 6)), fill=mix(paints[1], paints[2], 0.5))
    draw.polygon(_ridge(canvas, 0.82, 0.04, 1.4, rng.uniform(0, 6)), fill=paints[2])


def _waves(canvas: Image.Image, draw: ImageDraw.ImageDraw, paints: Paints, rng: random.Random) -> None:
    tall = canvas.height
    rows = 9
    for row in range(rows):
        level = row / rows
        colour = mix(paints[2], mix(paints[1], paints[0], level), 0.35 + 0.65 * level)
        draw.polygon(_ridge(canvas, level, 0.018, 5, rng.uniform(0, 6)), fill=colour)
        crest = _ridge(canvas, level + 0.02, 0.018, 5, rng.uniform(0, 6))[:49]
        draw.line(crest, fill=mix(colour, paints[2], 0.6), width=max(1, tall // 160))


def _night(canvas: Image.Image, draw: ImageDraw.ImageDraw, paints: Paints, rng: random.Random) -> None:
    width, tall = canvas.size
    for _ in range(110):
        x, y, r = rng.uniform(0, width), rng.uniform(0, tall), rng.choice((0.9, 1.2, 2.2)) * tall / 480
        draw.ellipse((x - r, y - r, x + r, y + r), fill=mix(paints[1], paints[2], rng.uniform(0.5, 1)))
    x, y, r = rng.uniform(0.08, 0.92) * width, 0.12 * tall, 0.08 * tall
    draw.ellipse((x - r, y - r, x + r, y + r), fill=paints[2])
    draw.ellipse((x - 0.5 * r, y - 1.15 * r, x + 1.4 * r, y + 0.75 * r), fill=mix(paints[0], paints[1], 0.1))


def _dunes(canvas: Image.Image, draw: ImageDraw.ImageDraw, paints: Paints, rng: random.Random) -> None:
    for level in (0.38, 0.52, 0.68, 0.84):
        phase, waves = rng.uniform(0, 6), rng.uniform(0.5, 0.9)
        draw.polygon(_ridge(canvas, level, 0.07, waves, phase), fill=mix(paints[1], paints[2], (level - 0.38) / 0.6))
        draw.polygon(_ridge(canvas, level + 0.05, 0.09, waves, phase + 0.5), fill=mix(paints[1], paints[0], 0.25))


def _bricks(canvas: Image.Image, draw: ImageDraw.ImageDraw, paints: Paints, rng: random.Random) -> None:
    width, tall = canvas.size
    draw.rectangle((0, 0, width, tall), fill=paints[2])
    high = tall / 9
    wide, gap = high * 2.2, high * 0.1
    for row in range(9):
        start = -wide * (0.5 if row % 2 else 0.0)
        for column in range(math.ceil(width / wide) + 1):
            x, y = start + column * wide, row * high
            shade = mix(paints[0], paints[1], rng.random())
            draw.rectangle((x + gap, y + gap, x + wide - gap, y + high - gap), fill=shade)


def _snow(canvas: Image.Image, draw: ImageDraw.ImageDraw, paints: Paints, rng: random.Random) -> None:
    width, tall = canvas.size
    for _ in range(5):
        x, y, high = rng.uniform(0, width), 0.56 * tall, rng.uniform(0.14, 0.24) * tall
        for part in (0.0, 0.3, 0.6):
            half, top = high * (0.2 + 0.25 * part), y - high * (1 - part)
            draw.polygon([(x, top), (x + half, top + 0.45 * high), (x - half, top + 0.45 * high)], fill=(88, 116, 130))
    draw.polygon(_ridge(canvas, 0.55, 0.04, 0.9, rng.uniform(0, 6)), fill=mix(paints[1], paints[0], 0.25))
    draw.polygon(_ridge(canvas, 0.74, 0.03, 1.2, rng.uniform(0, 6)), fill=paints[1])
    for _ in range(90):
        x, y, r = rng.uniform(0, width), rng.uniform(0, tall), rng.uniform(1.5, 4) * tall / 480
        draw.ellipse((x - r, y - r, x + r, y + r), fill=paints[2])


def _sunset(canvas: Image.Image, draw: ImageDraw.ImageDraw, paints: Paints, rng: random.Random) -> None:
    width, tall = canvas.size
    canvas.paste(gradient((width, round(tall * 0.68)), paints[0], paints[1]), (0, 0))
    x, y, r = rng.uniform(0.25, 0.75) * width, 0.66 * tall, 0.2 * tall
    draw.ellipse((x - r, y - r, x + r, y + r), fill=paints[2])
    ground = mix(paints[0], (0, 0, 0), 0.45)
    draw.rectangle((0, round(tall * 0.68), width, tall), fill=ground)
    for row in range(5):
        half, level = r * (1 - 0.16 * row), tall * (0.71 + 0.055 * row)
        draw.rectangle(
            (x - half, level, x + half, level + tall * 0.016), fill=mix(paints[2], ground, 0.25 + 0.12 * row)
        )


def _checks(canvas: Image.Image, draw: ImageDraw.ImageDraw, paints: Paints, rng: random.Random) -> None:
    width, tall = canvas.size
    side = min(width, tall) / 6
    shift = rng.randrange(2)
    for row in range(math.ceil(tall / side)):
        for column in range(math.ceil(width / side)):
            paint = paints[0] if (row + column + shift) % 2 else paints[1]
            draw.rectangle((column * side, row * side, (column + 1) * side, (row + 1) * side), fill=paint)


def _stripes(canvas: Image.Image, draw: ImageDraw.ImageDraw, paints: Paints, rng: random.Random) -> None:
    width, tall = canvas.size
    draw.rectangle((0, 0, width, tall), fill=paints[0])
    wide = min(width, tall) / 9
    start = -rng.random() * 2 * wide
    while start < width:
        draw.rectangle((start, 0, start + wide, tall), fill=paints[1])
        start += 2 * wide


def _forest(canvas: Image.Image, draw: ImageDraw.ImageDraw, paints: Paints, rng: random.Random) -> None:
    width, tall = canvas.size
    draw.rectangle((0, 0.8 * tall, width, tall), fill=paints[1])
    for depth in range(3):
        bark = mix((62, 44, 30), paints[0], 0.6 - 0.3 * depth)
        for _ in range(5 - depth):
            x, half = rng.uniform(0, width), tall * (0.012 + 0.012 * depth)
            foot = tall * (0.8 + 0.06 * depth)
            draw.rectangle((x - half, 0, x + half, foot), fill=bark)
            for _ in range(4):
                y, r = rng.uniform(-0.05, 0.35) * tall, tall * rng.uniform(0.05, 0.1)
                leaf = mix(paints[1], paints[2], rng.random())
                draw.ellipse((x - 1.8 * r, y - r, x + 1.8 * r, y + r), fill=leaf)


_PAINTERS = (_hills, _waves, _night, _dunes, _bricks, _snow, _sunset, _checks, _stripes, _forest)
_TEXTURES = {painter.__name__.removeprefix("_"): painter for painter in _PAINTERS}
