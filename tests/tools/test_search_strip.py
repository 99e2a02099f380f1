"""The strip of the README shows the pictures that were found, in their order."""

from __future__ import annotations

import numpy as np
from PIL import Image

from sightword.search.searcher import PictureHit
from tools import search_strip


def test_a_strip_shows_each_answers_pictures_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(search_strip, "PHOTOGRAPHS", tmp_path)
    colours = {"a.png": (200, 10, 10), "b.png": (10, 200, 10), "c.png": (10, 10, 200)}
    for name, colour in colours.items():
        Image.new("RGB", (60, 40), colour).save(tmp_path / name)
    orders = (["a.png", "b.png", "c.png"], ["c.png", "a.png", "b.png"])
    found = [search_strip.Answer("a query", [PictureHit(0, name, 0.5, 0.5) for name in order]) for order in orders]
    strip = np.asarray(search_strip.draw(found))
    assert strip.shape[1] == search_strip.WIDTH
    line = [tuple(int(value) for value in pixel) for pixel in strip[150]]
    seen = [pixel for place, pixel in enumerate(line) if pixel in colours.values() and pixel != line[place - 1]]
    assert seen == [colours[name] for order in orders for name in order]
