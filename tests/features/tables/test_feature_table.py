"""features.h5: the same bytes for the same content; nothing wrong is ever read from it."""

from __future__ import annotations

import hashlib
import os

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightword.errors import FeaturesError, FileFormatError
from sightword.features.tables.table import Origin, read_features, write_features
from sightword.io.hdf5 import seal

ORIGIN = Origin("net", "avgpool", "random:0", "ab", '{"crop":8}', "fp32", "extracted")


IDS = ["a.jpg", "bé.jpg", "c.jpg", "long name.jpg"]


SHA = [hashlib.sha256(image_id.encode()).hexdigest() for image_id in IDS]


VALUES = np.arange(12, dtype=np.float32).reshape(4, 3)


def write(path, *, order=(0, 1, 2, 3), block=2, ids=IDS, values=VALUES, sha256=SHA, rejected=()) -> None:
    rows = np.array(order, np.int64)
    blocks = [(rows[at : at + block], values[rows[at : at + block]]) for at in range(0, len(rows), block)]
    write_features(path, ids, sha256, 3, blocks, ORIGIN, rejected)


def test_what_is_written_is_read(tmp_path) -> None:
    write(tmp_path / "f.h5")
    table = read_features(tmp_path / "f.h5")
    assert np.array_equal(table.features, VALUES)
    assert table.features.dtype == np.float32
    assert (table.image_ids, table.sha256) == (IDS, SHA)
    assert table.attributes["backbone"] == "net"
    assert table.attributes["rows"] == 4
    assert table.rows(["c.jpg", "a.jpg", "c.jpg"]).tolist() == [2, 0, 2]
    assert table.rows(["c.jpg"]).dtype == np.int64


def test_the_layout_is_the_designed_one(tmp_path) -> None:
    write(tmp_path / "f.h5")
    with h5py.File(tmp_path / "f.h5") as file:
        assert file["features"].chunks is None
        assert file["features"].dtype == "<f4"
        width = max(len(image_id.encode()) for image_id in IDS)
        assert h5py.check_string_dtype(file["image_id"].dtype) == ("utf-8", width)
        assert h5py.check_string_dtype(file["sha256"].dtype) == ("utf-8", 64)
        assert set(file.attrs) == {
            "schema", "backbone", "feature_point", "weights", "weights_sha256", "transform", "precision", "origin",
            "rows", "complete",
        }  # fmt: skip
        assert file.attrs["schema"] == 2
    whole = (tmp_path / "f.h5").read_bytes()
    checksum = hashlib.sha256(whole[512:]).hexdigest()
    assert whole[:512].split(b"\n")[1].decode() == checksum == read_features(tmp_path / "f.h5").attributes["checksum"]


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(4)), st.integers(1, 4))
def test_order_and_blocks_do_not_change_the_bytes(tmp_path_factory, order, block) -> None:
    folder = tmp_path_factory.mktemp("tables")
    write(folder / "one.h5")
    write(folder / "two.h5", order=order, block=block)
    assert (folder / "one.h5").read_bytes() == (folder / "two.h5").read_bytes()


def test_missing_pictures_are_counted_and_named(tmp_path) -> None:
    write(tmp_path / "f.h5")
    table = read_features(tmp_path / "f.h5")
    with pytest.raises(FeaturesError, match=r"7 of 8 pictures have no features: x0, x1, x2, x3, x4 and 2 more"):
        table.rows(["a.jpg", *(f"x{number}" for number in range(7))])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": (0, 1, 2)}, "1 of 4 rows were never written"),
        ({"order": (0, 1, 2, 2, 3), "block": 1}, "written twice"),
        ({"ids": ["b", "a", "c", "d"]}, "sorted"),
        ({"sha256": SHA[:3]}, "3 sha256 for 4"),
        ({"values": np.full((4, 3), np.nan, np.float32)}, "not finite"),
        ({"ids": ["a\0", "b", "c", "d"]}, "NUL"),
    ],
)
def test_nothing_wrong_is_written(tmp_path, options, message) -> None:
    with pytest.raises(FeaturesError, match=message):
        write(tmp_path / "f.h5", **options)
    assert list(tmp_path.iterdir()) == []


def changed(path, change) -> None:
    with h5py.File(path, "r+") as file:
        change(file)


ATTRIBUTES = {
    "schema": 3, "backbone": "other", "transform": '{"crop":9}', "rows": 3, "complete": False, "more": "one",
}  # fmt: skip


@pytest.mark.parametrize("change", [
    *(lambda file, key=key, value=value: file.attrs.__setitem__(key, value) for key, value in ATTRIBUTES.items()),
    lambda file: file.attrs.__delitem__("backbone"),
    lambda file: file["features"].write_direct(np.ones((4, 3), np.float32)),
    lambda file: file["image_id"].__setitem__(0, "b.jpg"),
    lambda file: file["sha256"].__setitem__(0, "0" * 64),
    lambda file: file["rejected"].__setitem__(0, "y"),
    lambda file: file.__delitem__("rejected"),
])  # fmt: skip
def test_whatever_is_changed_by_hand_is_refused(tmp_path, change) -> None:
    write(tmp_path / "f.h5", rejected=["x"])
    assert read_features(tmp_path / "f.h5").rejected == {"x"}
    changed(tmp_path / "f.h5", change)
    with pytest.raises(FileFormatError, match=r"f\.h5: is damaged or was changed: .* Run `dvc repro features`"):
        read_features(tmp_path / "f.h5")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.attrs.__setitem__("complete", False), "not written to its end"),
        (lambda file: file.attrs.__setitem__("schema", 3), "has the schema 3; expected 2"),
        (lambda file: file.__delitem__("sha256"), "not written to its end"),
    ],
)
def test_a_file_of_another_schema_or_a_part_of_one_is_refused(tmp_path, change, message) -> None:
    """The checksum fits, so that the content is looked at."""
    write(tmp_path / "f.h5")
    changed(tmp_path / "f.h5", change)
    seal(tmp_path / "f.h5")
    with pytest.raises(FileFormatError, match=message):
        read_features(tmp_path / "f.h5")


def test_files_that_are_none(tmp_path) -> None:
    path = tmp_path / "f.h5"
    with pytest.raises(FileFormatError, match="does not exist"):
        read_features(path)
    for content in (b"", b"text", bytes(10_000)):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="expected a features file of this Sightword"):
            read_features(path)
    write(path)
    whole = path.read_bytes()
    for length in (len(whole) // 2, len(whole) - 1, 512):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match="is damaged or was changed"):
            read_features(path)
    path.write_bytes(whole[512:])  # without the first bytes another program's, or one from before there was a checksum
    with pytest.raises(FileFormatError, match="is damaged, or a file of another program or of an earlier Sightword"):
        read_features(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FileFormatError, match="a pipe or a device, not a regular file"):
        read_features(path)
    with pytest.raises(FileFormatError, match="Is a directory"):
        read_features(tmp_path)
