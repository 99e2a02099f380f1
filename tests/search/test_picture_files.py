"""Thumbnails of pictures, from shards and from files, and never of a file elsewhere."""

from __future__ import annotations

import io
import os
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from search_world import EVIL, bomb

from sightword.errors import SearchError
from sightword.search.picture_files import SIDE, Thumbnails

SECRET = Image.new("RGB", (9, 9), "red")


@pytest.fixture
def folder(tmp_path):
    """A folder of pictures, with one next to it that nobody may see."""
    pictures = tmp_path / "pictures"
    (pictures / "deeper").mkdir(parents=True)
    SECRET.save(tmp_path / "secret.png")
    Image.linear_gradient("L").resize((900, 300)).save(pictures / "wide.png")
    (pictures / "broken.png").write_bytes(b"\x89PNG and no more")
    (pictures / "large.png").write_bytes(bomb(30_000))
    os.mkfifo(pictures / "pipe.png")
    return pictures


def opened(data: bytes | None) -> Image.Image:
    assert data is not None
    return Image.open(io.BytesIO(data))


def test_shards_and_files_show_the_same_picture(world, tmp_path):
    shards, files = Thumbnails(world.folder / "data/resized"), Thumbnails(world.files)
    for picture in (EVIL, "scene-005.png"):
        one, other = (opened(kind.get(picture)).convert("L").resize((16, 16)) for kind in (shards, files))
        assert np.abs(np.asarray(one, float) - np.asarray(other, float)).mean() < 6
        assert picture in shards
        assert picture in files
    assert "scene-999.png" not in shards
    assert shards.get("scene-999.png") is None
    shutil.copytree(world.folder / "data/resized", tmp_path / "resized")
    replaced = Thumbnails(tmp_path / "resized")
    for path in (tmp_path / "resized").glob("shard-*"):
        path.write_bytes(b"another")
    assert replaced.get("scene-005.png") is None


def test_thumbnail_is_small_and_of_pictures_alone(folder, tmp_path):
    files = Thumbnails(folder)
    assert opened(files.get("wide.png")).size == (SIDE, round(SIDE / 3))
    for picture in ("broken.png", "large.png", "pipe.png", "absent", "deeper", "", "n" * 5000):
        assert files.get(picture) is None
    with pytest.raises(SearchError, match="there is no such folder; expected the shards"):
        Thumbnails(tmp_path / "none")


@given(st.lists(st.sampled_from(["..", "/", "\\", ".", "deeper", "secret", ".png", "%2e", "\0", "//"]), max_size=7))
def test_no_id_leads_out_of_the_folder(tmp_path_factory, parts):
    folder = tmp_path_factory.getbasetemp() / "outside" / "pictures"
    (folder / "deeper").mkdir(parents=True, exist_ok=True)
    SECRET.save(folder.parent / "secret.png")
    files = Thumbnails(folder)
    assert files.get("".join(parts)) is None
    assert files.get(str(folder.parent / "secret.png")) is None
