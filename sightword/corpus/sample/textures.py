"""Paints the sample's backgrounds, each from three paints."""

from __future__ import annotations

import math
import random

from PIL import Image, ImageDraw

RGB = tuple[int, int, int]
Paints = tuple[RGB, RGB, RGB]


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
