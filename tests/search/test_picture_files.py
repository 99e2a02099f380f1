"""Small copies of pictures, from shards and from files, and never of a file elsewhere."""

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
from sightword.search.thumbnails import SIDE, FileThumbnails, open_pictures

SECRET = Image.new("RGB", (9, 9), "red")


@pytest.fixture
def folder(tmp_path):
    """A folder of pictures, with one beside it that nobody may see."""
    pictures = tmp_path / "pictures"
    (pictures / "deeper").mkdir(parents=True)
    SECRET.save(tmp_path / "secret.png")
    Image.linear_gradient("L").resize((900, 300)).save(pictures / "wide.png")
    SECRET.save(pictures / "deeper" / "one.jpg")
    (pictures / "broken.png").write_bytes(b"\x89PNG and no more")
    (pictures / "large.png").write_bytes(bomb(30_000))
    os.mkfifo(pictures / "pipe.png")
    return pictures


def opened(data: bytes | None) -> Image.Image:
    assert data is not None
    return Image.open(io.BytesIO(data))


def test_both_kinds_of_folder_show_the_same_picture(world):
    shards, files = open_pictures(world.folder / "data/resized"), open_pictures(world.files)
    for picture in (EVIL, "scene-005.png"):
        one, other = (opened(kind.get(picture)).convert("L").resize((16, 16)) for kind in (shards, files))
        assert np.abs(np.asarray(one, float) - np.asarray(other, float)).mean() < 6
        assert picture in shards
        assert picture in files
    assert "scene-999.png" not in shards
    assert shards.get("scene-999.png") is None
    assert shards.others({"scene-005.png": "0" * 64, "scene-006.png": "", "scene-999.png": "0" * 64}) == 1


def test_a_copy_is_small_and_an_id_may_lack_its_suffix(folder):
    files = FileThumbnails(folder)
    assert opened(files.get("wide.png")).size == (SIDE, round(SIDE / 3))
    assert files.get("wide") == files.get("wide.png")
    assert opened(files.get("deeper/one")).size == (9, 9)


@pytest.mark.parametrize("picture", ["broken.png", "large.png", "pipe.png", "absent", "deeper", "", ".", "n" * 5000])
def test_what_is_no_picture_has_no_copy(folder, picture):
    assert FileThumbnails(folder).get(picture) is None


@given(st.lists(st.sampled_from(["..", "/", "\\", ".", "deeper", "secret", ".png", "%2e", "\0", "//"]), max_size=7))
def test_no_id_leads_out_of_the_folder(tmp_path_factory, parts):
    folder = tmp_path_factory.getbasetemp() / "outside" / "pictures"
    (folder / "deeper").mkdir(parents=True, exist_ok=True)
    SECRET.save(folder.parent / "secret.png")
    files = FileThumbnails(folder)
    assert files.get("".join(parts)) is None
    assert files.get(str(folder.parent / "secret.png")) is None


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SearchError, match="there is no such folder; expected the shards"):
        open_pictures(tmp_path / "none")


def test_shards_that_were_replaced_show_nothing(world, tmp_path):
    shutil.copytree(world.folder / "data/resized", tmp_path / "resized")
    shards = open_pictures(tmp_path / "resized")
    for path in (tmp_path / "resized").glob("shard-*"):
        path.write_bytes(b"another")
    assert shards.get("scene-005.png") is None
