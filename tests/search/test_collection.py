"""A folder of picture files is searched with features like the encoder's."""

from __future__ import annotations

import json
import shutil
import threading
from typing import NamedTuple

import numpy as np
import pytest
import torch
from extracting import extract
from PIL import Image, ImageOps

from sightword.errors import SearchError, StoreError
from sightword.features.extractor import Extractor
from sightword.features.networks import find_backbone
from sightword.features.precomputed import convert
from sightword.features.settings import FeaturesSettings
from sightword.features.tables.origin import parts_of
from sightword.features.tables.table import Origin, read_features, write_features
from sightword.features.weights import Weights
from sightword.images import resized
from sightword.search import picture_files
from sightword.search.collection import JoinedFolder, PictureFolder, Reading
from sightword.search.networks import NamedNetwork, UploadedPictures, difference
from sightword.search.picture_files import list_pictures
from sightword.search.searcher import Searcher
from sightword.storage.store import Store


@pytest.fixture
def folder(world, tmp_path):
    """Five pictures of the world, one of them in a folder, with files that are no pictures."""
    place = tmp_path / "photos"
    (place / "beach").mkdir(parents=True)
    (place / ".trash").mkdir()
    for number in (3, 4, 5, 6):
        shutil.copy(world.files / f"scene-{number:03d}.png", place)
    shutil.copy(world.files / "scene-007.png", place / "beach/A b.PNG")
    shutil.copy(world.files / "scene-007.png", place / ".trash/x.png")
    (place / "notes.txt").write_text("no picture")
    return place


class Read(NamedTuple):
    """What was read of a folder, in the order of the ids."""

    image_ids: list[str]
    sha256: list[str]
    features: np.ndarray
    rejected: set[str]


def opened(network, folder, store) -> PictureFolder:
    return PictureFolder(str(folder), list_pictures(folder), network, Reading(torch.device("cpu"), Store(store)))


def all_of(place: PictureFolder, **options) -> Read:
    pieces = []
    place.read(pieces.append, **options)
    rows = sorted(row for piece in pieces for row in zip(piece.ids, piece.sha256, piece.features, strict=True))
    ids, sha256, features = zip(*rows, strict=True) if rows else ([], [], [np.empty(0)])
    return Read([*ids], [*sha256], np.stack(features), {*place.rejected})


def opened_for(world, folder, store) -> PictureFolder:
    return opened(NamedNetwork(world.encoder().notes["features"]), folder, store)


def read(world, folder, store, **options) -> Read:
    return all_of(opened_for(world, folder, store), **options)


def test_features_are_the_stages_and_are_read_once(world, folder, tmp_path, monkeypatch):
    found = read(world, folder, tmp_path / "store")
    assert found.image_ids == ["beach/A b.PNG", *(f"scene-00{number}.png" for number in (3, 4, 5, 6))]
    table = world.table()
    rows = table.rows([f"scene-00{number}.png" for number in (7, 3, 4, 5, 6)])
    assert np.array_equal(found.features, table.features[rows])
    assert found.sha256 == [table.sha256[row] for row in rows]
    searcher = Searcher(world.encoder(), opened_for(world, folder, tmp_path / "store"))
    searcher.read_pictures()
    assert not any("another kind" in note for note in searcher.notes)
    hits = searcher.pictures("a red circle", 5).hits
    assert sorted(hit.picture for hit in hits) == found.image_ids

    monkeypatch.setattr(Extractor, "run", None)
    monkeypatch.setattr(resized, "read_picture", None)
    again = read(world, folder, tmp_path / "store")
    assert again.image_ids == found.image_ids
    assert np.array_equal(again.features, found.features)


def test_several_networks_give_features_side_by_side(world, folder, tmp_path, caplog):
    """From one table of both, also for an uploaded picture, each network with a transform of its own."""
    one = world.encoder().notes["features"]
    ids = [f"scene-00{number}.png" for number in (3, 4, 5, 6, 7)]
    paths = [world.files / image_id for image_id in ids]
    size = {"resize": 80, "crop": 72, "crops": "one"}
    other = extract(paths, "timm:test_resnet", "random", weights_seed=7, fit="squash", interpolation="bicubic", **size)
    made = {"resize": [80, 80], "interpolation": "bicubic", "exif": False, "crops": "one", "crop": 72, "relu": False,
            "l2": False, "mean": [0.5] * 3, "std": [0.5] * 3}  # fmt: skip
    sha256 = Weights(find_backbone("timm:test_resnet"), "random", seed=7).sha256
    origin = Origin("timm:test_resnet", "pooled", "random:7", sha256, json.dumps(made), "fp32", "extracted")
    table = world.table()
    rows = table.rows(ids)
    tables = {
        "one": (table.features[rows], Origin(**{key: one.get(key, "") for key in vars(origin)})),
        "other": (other, origin),
    }
    for name, (values, of) in tables.items():
        hashes = [table.sha256[row] for row in rows]
        write_features(tmp_path / f"{name}.h5", ids, hashes, values.shape[1], [(np.arange(len(ids)), values)], of)
    settings = FeaturesSettings(source="precomputed", inputs=str(tmp_path), precomputed=["one.h5", "other.h5"])
    convert(tmp_path / "both.h5", ids, settings)
    both = read_features(tmp_path / "both.h5")
    scaled = [values / np.linalg.norm(values, axis=1, keepdims=True) for values in (table.features[rows], other)]
    np.testing.assert_allclose(both.features, np.hstack(scaled), rtol=1e-6, atol=1e-7)

    networks = [NamedNetwork(part) for part in parts_of(both.attributes)]
    reading = Reading(torch.device("cpu"), Store(tmp_path / "store"))

    def joined_folder() -> JoinedFolder:
        return JoinedFolder(str(folder), list_pictures(folder), networks, reading, both.attributes)

    joined = joined_folder()
    found = all_of(joined)
    assert found.image_ids == ["beach/A b.PNG", *ids[:4]]
    assert np.array_equal(found.features, both.features[[4, 0, 1, 2, 3]])
    assert joined.dimension == both.features.shape[1]
    assert difference(both.attributes, joined.attributes) == ""
    assert np.array_equal(UploadedPictures(both.attributes, {}).features(paths[0].read_bytes()), both.features[0])
    (folder / "beach/A b.PNG").write_bytes(b"GIF89a")
    broken = all_of(joined_folder())
    assert sum("picture beach/A b.PNG left out: " in text for text in caplog.messages) == 1
    assert (broken.image_ids, broken.rejected) == (ids[:4], {"beach/A b.PNG"})


def test_files_that_come_change_and_go_are_followed(world, folder, tmp_path):
    read(world, folder, tmp_path / "store")
    (folder / "scene-003.png").unlink()
    shutil.copy(world.files / "scene-009.png", folder / "scene-004.png")
    shutil.copy(world.files / "scene-005.png", folder / "copy.png")
    found, table = read(world, folder, tmp_path / "store"), world.table()
    names = ["scene-007.png", "scene-005.png", "scene-009.png", "scene-005.png", "scene-006.png"]
    assert found.image_ids == ["beach/A b.PNG", "copy.png", *(f"scene-00{number}.png" for number in (4, 5, 6))]
    assert np.array_equal(found.features, table.features[table.rows(names)])


def test_unusable_files_are_left_out_and_reported(world, folder, tmp_path, caplog):
    (folder / "empty.jpg").write_bytes(b"")
    whole = (world.files / "scene-008.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    found = read(world, folder, tmp_path / "store")
    assert len(found.image_ids) == 5
    assert found.rejected == {"cut.png", "empty.jpg"}
    assert "picture empty.jpg left out: " in caplog.text
    assert "picture cut.png left out: " in caplog.text


def test_files_changed_after_the_listing_are_read_anew(world, folder, tmp_path, caplog):
    place = opened_for(world, folder, tmp_path / "store")
    shutil.copy(world.files / "scene-009.png", folder / "scene-003.png")
    (folder / "scene-004.png").unlink()
    found, table = all_of(place), world.table()
    assert found.rejected == {"scene-004.png"}
    assert "picture scene-004.png left out: " in caplog.text
    names = [f"scene-00{number}.png" for number in (7, 9, 5, 6)]
    assert np.array_equal(found.features, table.features[table.rows(names)])


def test_files_decoded_by_another_version_are_read_again(world, folder, tmp_path, monkeypatch):
    first = read(world, folder, tmp_path / "store")
    honest = resized.decode
    with monkeypatch.context() as patch:
        patch.setattr(picture_files, "decoder", lambda: "another version of Pillow")
        patch.setattr(resized, "decode", lambda *given, **how: ImageOps.invert(honest(*given, **how)))
        other = read(world, folder, tmp_path / "store")
        assert np.array_equal(other.features, read(world, folder, tmp_path / "cold").features)
    assert not np.any(np.all(other.features == first.features, axis=1))
    assert np.array_equal(read(world, folder, tmp_path / "store").features, first.features)


def test_damaged_list_of_files_is_made_again(world, folder, tmp_path):
    first = read(world, folder, tmp_path / "store")
    [place] = (tmp_path / "store/folders").iterdir()
    whole = place.read_text()
    other = whole[:-10] + ("0" if whole[-10] != "0" else "1") + whole[-9:]
    for damaged in ("[]", whole[:-1], other):
        place.write_text(damaged)
        assert read(world, folder, tmp_path / "store").sha256 == first.sha256
        assert place.read_text() == whole


def test_photograph_is_turned_by_its_exif(world, tmp_path):
    for name, turn in (("upright", None), ("turned", 6)):
        (tmp_path / name).mkdir()
        with Image.open(world.files / "scene-003.png") as image:
            picture = image.convert("RGB") if turn is None else image.convert("RGB").rotate(90, expand=True)
            exif = picture.getexif()
            if turn:
                exif[0x0112] = turn
            picture.save(tmp_path / name / "a.png", exif=exif)
    upright, turned = (read(world, tmp_path / name, tmp_path / "store") for name in ("upright", "turned"))
    assert np.allclose(upright.features, turned.features, atol=1e-5)


def test_unusable_folders_and_features_are_refused(world, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SearchError, match="holds no picture files"):
        list_pictures(tmp_path / "empty")
    with pytest.raises(SearchError, match="no such folder"):
        list_pictures(tmp_path / "none")
    (tmp_path / "empty/a.jpg").write_bytes(b"GIF89a")
    with pytest.raises(SearchError, match="none of its pictures can be used"):
        read(world, tmp_path / "empty", tmp_path / "store")
    network = NamedNetwork({"backbone": "", "origin": "precomputed: mine.npy (sha256 00)"})
    with pytest.raises(SearchError, match="trained on precomputed features"):
        opened(network, folder, tmp_path / "store")


def test_stopped_reading_is_continued(world, folder, tmp_path, monkeypatch):
    for number in range(8, 30):
        shutil.copy(world.files / f"scene-{number:03d}.png", folder)
    place, stop, pieces = opened_for(world, folder, tmp_path), threading.Event(), []
    place.read(lambda piece: (pieces.append(piece), stop.set()), stop=stop)
    first = {picture for piece in pieces for picture in piece.ids}
    assert 0 < len(first) < 27
    computed, ran = [], Extractor.run
    monkeypatch.setattr(Extractor, "run", lambda self, seen: (computed.append(one) or one for one in ran(self, seen)))
    again = read(world, folder, tmp_path)
    assert len(computed) == 27 - len(first)
    assert len(again.image_ids) == 27
    assert np.array_equal(again.features, read(world, folder, tmp_path / "other").features)


def test_reading_continues_after_an_error(world, folder, tmp_path):
    place, pieces = opened_for(world, folder, tmp_path), []

    def fail(_piece):
        raise RuntimeError("no luck")

    with pytest.raises(RuntimeError):
        place.read(fail)
    place.read(pieces.append)
    place.read(pieces.append)
    ids = sorted(source.image_id for source in place.sources)
    assert sorted(picture for piece in pieces for picture in piece.ids) == ids


def test_unwritable_store_is_told_before_computing(world, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Extractor, "run", None)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match="the store cannot be written"):
        opened_for(world, folder, tmp_path / "file")
