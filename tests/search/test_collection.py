"""Pictures of a folder and from outside are searched with features like the encoder's, or told why not."""

from __future__ import annotations

import io
import json
import shutil
import threading
from typing import NamedTuple

import numpy as np
import pytest
import torch
from extracting import extract
from PIL import Image
from search_world import bomb

from sightword.errors import SearchError, StoreError, WeightsError
from sightword.features.extractor import Extractor
from sightword.features.networks import find_backbone
from sightword.features.precomputed import convert
from sightword.features.settings import FeaturesSettings
from sightword.features.tables.origin import parts_of
from sightword.features.tables.table import Origin, read_features, write_features
from sightword.features.weights import Weights
from sightword.images import resized
from sightword.search import searcher as searching
from sightword.search.collection import JoinedFolder, PictureFolder, Reading
from sightword.search.networks import NamedNetwork, UploadedPictures, difference
from sightword.search.picture_files import list_pictures
from sightword.search.searcher import Searcher
from sightword.storage.maintenance import survey
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


def opened(network, folder, store, **options) -> PictureFolder:
    reading = Reading(torch.device("cpu"), Store(store))
    return PictureFolder(str(folder), list_pictures(folder), network, reading, **options)


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


def test_many_new_pictures_are_found_by_one_crop_then_by_ten(world, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(searching, "_FEW", 2)
    attributes = dict(world.encoder().notes["features"])
    attributes["transform"] = attributes["transform"].replace('"one"', '"ten"')
    (folder / "broken.png").write_bytes(b"no picture")

    def searcher(store, *, quick=True) -> Searcher:
        whole, first = (opened(NamedNetwork(attributes), folder, store, quick=is_quick) for is_quick in (False, True))
        return Searcher(world.encoder(), whole, quick=(lambda: first) if quick else None)

    def hits(of) -> dict[str, float]:
        return {hit.picture: hit.score for hit in of.pictures("a red circle", 5).hits}

    whole = searcher(tmp_path / "whole", quick=False)
    assert not whole.read_quickly()
    whole.read_pictures()
    table = Searcher(world.encoder(), world.table())  # of the centre crop
    centre = {hit.picture: hit.score for hit in table.pictures("a red circle", 30).hits}
    centre["beach/A b.PNG"] = centre["scene-007.png"]

    found = searcher(tmp_path / "store")
    assert found.read_quickly()
    assert hits(found) == pytest.approx({picture: centre[picture] for picture in hits(whole)}, abs=1e-6)
    assert hits(found) != pytest.approx(hits(whole), abs=1e-5)
    stop = threading.Event()
    stop.set()
    found.read_pictures(stop=stop)
    assert (found.pictures_read, found.pictures_left, found.pictures_quick) == (5, 0, 5)
    rows = dict(found.catalogue.rows)
    found.read_pictures()
    assert hits(found) == pytest.approx(hits(whole), abs=1e-6)
    assert (found.pictures_left, found.pictures_quick, found.catalogue.rows) == (0, 0, rows)
    again = searcher(tmp_path / "store")
    assert not again.read_quickly()
    assert hits(again) == pytest.approx(hits(whole), abs=1e-6)


def test_several_networks_give_features_side_by_side(world, folder, tmp_path, caplog, monkeypatch):
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

    def joined_folder(store: str = "store") -> JoinedFolder:
        reading = Reading(torch.device("cpu"), Store(tmp_path / store))
        return JoinedFolder(str(folder), list_pictures(folder), networks, reading, both.attributes)

    monkeypatch.setattr("sightword.search.collection._FIRST", 2)
    stop = threading.Event()
    joined_folder("early").read(lambda _: stop.set(), stop=stop)
    assert [kind.features for kind in survey(Store(tmp_path / "early"))] == [2, 2]

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


def test_unwritable_store_is_told_before_computing(world, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Extractor, "run", None)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match="the store cannot be written"):
        opened_for(world, folder, tmp_path / "file")


def test_uploaded_file_has_its_features_and_copy_is_known(world, searcher):
    table = world.table()
    picture = table.image_ids[4]
    data = (world.files / picture).read_bytes()
    assert np.array_equal(searcher.uploads.features(data), table.features[4])
    assert searcher.uploads.row(data) == 4
    assert searcher.uploads.row(data + b"x") is None


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "0 bytes"),
        (bomb(30_000), "900000000|pixels"),
        (bomb(8000), "64000000|8000 x 8000"),
    ],
)
def test_upload_of_no_picture_or_a_bomb_is_refused(searcher, data, what):
    with pytest.raises(SearchError, match=what):
        searcher.uploads.features(data)


def test_upload_that_would_grow_too_large_is_refused(searcher):
    buffer = io.BytesIO()
    Image.new("L", (1, 1_000_000)).save(buffer, "PNG")
    with pytest.raises(SearchError, match="would become 64 x"):
        searcher.uploads.features(buffer.getvalue())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"backbone": "", "origin": "precomputed: mine.npy"}, r"uses precomputed features \(precomputed: mine.npy\)"),
        *[({"transform": text}, "do not say how") for text in ("{}", "[" * 9999)],
        ({"weights": "mine.pth"}, r"a file of their own \(mine.pth\): give it as weights"),
    ],
)
def test_features_that_cannot_be_computed_say_why(world, changed, why):
    found = UploadedPictures({**world.table().attributes, **changed}, {})
    with pytest.raises(SearchError, match=why):
        found.features((world.files / "scene-001.png").read_bytes())


def test_other_weights_are_refused(world, tmp_path):
    (tmp_path / "other.pth").write_bytes(b"something")
    attributes = {**world.table().attributes, "weights": "mine.pth"}
    data = (world.files / "scene-001.png").read_bytes()
    with pytest.raises(WeightsError, match="has the sha256"):
        UploadedPictures(attributes, {}, weights=tmp_path / "other.pth").features(data)
    other_random = {**world.table().attributes, "weights": "random:2"}
    with pytest.raises(SearchError, match="random weights are not the same here"):
        UploadedPictures(other_random, {}).features(data)
