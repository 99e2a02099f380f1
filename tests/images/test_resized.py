"""Pictures are resized as by torchvision; a corpus becomes a folder of shards, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sightword.errors import PictureError
from sightword.features.vision import torchvision
from sightword.images import resized
from sightword.images.resized import Source, resize, resized_size, write_resized
from sightword.images.settings import ResizeSettings
from sightword.images.shards import list_pictures

SMALL = ResizeSettings(side=16, shards=3)


@pytest.fixture
def sources(tmp_path) -> list[Source]:
    rng = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    found = []
    for number in range(20):
        path = tmp_path / "pictures" / f"{number}.png"
        Image.fromarray(rng.integers(0, 256, (20, 30 + number, 3), np.uint8)).save(path)
        found.append(Source(f"id-{number}", str(path)))
    return found


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.slow
def test_order_and_workers_do_not_change_the_bytes(tmp_path, sources, monkeypatch) -> None:
    Path(sources[3].path).write_text("no picture")
    settings = SMALL.model_copy(update={"max_rejects": 1})
    write_resized(tmp_path / "one", sources, settings)
    monkeypatch.setattr(resized, "ALONE", 0.0)
    write_resized(tmp_path / "two", sources[::-1], settings, workers=2)
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")


def test_one_more_picture_changes_one_shard(tmp_path, sources) -> None:
    write_resized(tmp_path / "one", sources[:-1], SMALL)
    write_resized(tmp_path / "two", sources, SMALL)
    before, after = bytes_of(tmp_path / "one"), bytes_of(tmp_path / "two")
    assert len([name for name in before if before[name] != after[name]]) == 1


def test_a_bad_picture_stops_the_stage_and_leaves_the_earlier_folder(tmp_path, sources) -> None:
    write_resized(tmp_path / "out", sources, SMALL)
    before = bytes_of(tmp_path / "out")
    Path(sources[3].path).write_text("no picture")
    with pytest.raises(PictureError, match=r"1 picture cannot be used \(1 not_a_picture\): id-3 .*max_rejects = 0"):
        write_resized(tmp_path / "out", sources, SMALL)
    assert bytes_of(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.tmp", "pictures"]


def test_missing_files_are_found_before_any_picture_is_decoded(tmp_path, sources, monkeypatch) -> None:
    monkeypatch.setattr("sightword.images.resized.decode", None)
    gone = [Source(f"gone-{number}", str(tmp_path / f"{number}.jpg")) for number in range(7)]
    with pytest.raises(PictureError, match=r"7 pictures .*7 missing.*gone-4.*and 2 more"):
        write_resized(tmp_path / "out", sources + gone, SMALL)


def test_a_corpus_without_pictures_gives_empty_shards(tmp_path) -> None:
    summary = write_resized(tmp_path / "out", [Source("a", None), Source("b", None)], SMALL)
    assert (summary.pictures, summary.rejects) == (0, [])
    assert sorted(path.name for path in (tmp_path / "out").glob("shard-*")) == [f"shard-0{n}.parquet" for n in range(3)]
    assert list_pictures(tmp_path / "out") == []


@given(st.integers(1, 6000), st.integers(1, 6000), st.sampled_from([64, 224, 256, 299]))
def test_the_size_is_that_of_torchvision(width: int, height: int, side: int) -> None:
    oracle = torchvision.transforms.functional._compute_resized_output_size((height, width), [side])
    assert resized_size(width, height, side) == (oracle[1], oracle[0])


@pytest.mark.parametrize("size", [(500, 375), (333, 500), (40, 30), (256, 256)])
@pytest.mark.parametrize("name", ["lanczos", "bicubic", "bilinear"])
@pytest.mark.parametrize("fit", ["keep", "squash"])
def test_the_pixels_are_those_of_torchvision(size: tuple[int, int], name: str, fit: str) -> None:
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), np.uint8))
    mode = torchvision.transforms.InterpolationMode[name.upper()]
    oracle = torchvision.transforms.Resize(256 if fit == "keep" else (256, 256), mode)(picture)
    found = resize(picture, size=ResizeSettings(fit=fit).size, interpolation=name, max_pixels=10**6)
    assert np.array_equal(np.asarray(found), np.asarray(oracle))


def test_a_thin_picture_is_squashed_to_a_square() -> None:
    picture = Image.new("RGB", (1, 5000))
    size = ResizeSettings(side=64, fit="squash").size
    assert resize(picture, size=size, interpolation="lanczos", max_pixels=64 * 64).size == (64, 64)


@pytest.mark.parametrize("fit", ["keep", "squash"])
def test_settings_come_back_from_their_record(fit: str) -> None:
    settings = ResizeSettings(side=100, fit=fit, interpolation="box", exif=True)
    record = json.loads(json.dumps(settings.transform))
    assert ResizeSettings.of_transform(record["resize"], record["interpolation"], exif=record["exif"]) == settings
