"""The strip of the README shows the photographs in the order of the answers."""

from __future__ import annotations

import re
from types import SimpleNamespace
from xml.etree import ElementTree as ET

from PIL import Image

from tools import search_strip


def test_strip_places_photographs_in_the_order_of_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(search_strip, "PHOTOGRAPHS", tmp_path)
    names = [f"{letter}.jpg" for letter in "abcde"]
    for name in names:
        Image.new("RGB", (60, 40)).save(tmp_path / name)
    orders = {"a typde word": [*names[1:], "a.jpg"]}

    def pictures(query, _):
        return SimpleNamespace(hits=[SimpleNamespace(picture=one) for one in orders.get(query, names)])

    strip = search_strip.draw(SimpleNamespace(pictures=pictures), {"a typde word": "a.jpg", "two wrods": "a.jpg"})
    assert "2 misspelt sentences, one for each photograph: 1 find theirs first." in strip
    assert re.findall(r">(number 5|first) of 2</text>", strip) == ["number 5", "first"]
    groups = [one for one in ET.fromstring(strip).iter() if one.get("id", "").startswith("p-")]
    left = {one.get("id"): float(re.findall(r"[\d.]+", one.get("style"))[0]) for one in groups}
    assert sorted(left, key=left.get) == ["p-a", "p-b", "p-c", "p-d", "p-e"]
    assert "scale(0.554)" in groups[0].get("style")
    assert not re.findall(r"<script|href=\"(?!data:)", strip)
