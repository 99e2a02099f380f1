"""features.h5: the same bytes for the same content; nothing wrong is ever read from it."""

from __future__ import annotations

import hashlib

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import FeaturesError, FileFormatError
from pipeline.features.table import Origin, read_features, write_features

ORIGIN = Origin("net", "avgpool", "random:0", "ab", '{"crop":8}', "fp32", "extracted")
IDS = ["a.jpg", "bé.jpg", "c.jpg", "long name.jpg"]
SHA = [hashlib.sha256(image_id.encode()).hexdigest() for image_id in IDS]
VALUES = np.arange(12, dtype=np.float32).reshape(4, 3)


def write(path, *, order=(0, 1, 2, 3), block=2, ids=IDS, values=VALUES, sha256=SHA) -> None:
    rows = np.array(order, np.int64)
    blocks = [(rows[at : at + block], values[rows[at : at + block]]) for at in range(0, len(rows), block)]
    write_features(path, ids, sha256, 3, blocks, ORIGIN)


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
        content = VALUES.astype("<f4").tobytes()
        content += b"".join(image_id.encode().ljust(width, b"\0") for image_id in IDS) + "".join(SHA).encode()
        assert file.attrs["checksum"] == hashlib.sha256(content).hexdigest()
        assert set(file.attrs) == {
            "schema", "backbone", "feature_point", "weights", "weights_sha256", "transform", "precision", "origin",
            "rows", "complete", "checksum",
        }  # fmt: skip


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
    with pytest.raises(FeaturesError, match=r"7 of 8 pictures have no features: x0, x1, x2, x3, x4, \.\.\."):
        table.rows(["a.jpg", *(f"x{number}" for number in range(7))])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": (0, 1, 2)}, "1 of 4 rows were never written"),
        ({"order": (0, 1, 2, 2, 3), "block": 1}, "written twice"),
        ({"order": (0, 0), "block": 2}, "written twice"),
        ({"ids": ["b", "a", "c", "d"]}, "sorted"),
        ({"ids": ["a", "a", "c", "d"]}, "sorted"),
        ({"sha256": SHA[:3]}, "3 sha256 for 4"),
        ({"values": np.full((4, 3), np.nan, np.float32)}, "not finite"),
        ({"ids": ["a\0", "b", "c", "d"]}, "NUL"),
    ],
)
def test_nothing_wrong_is_written(tmp_path, options, message) -> None:
    with pytest.raises(FeaturesError, match=message):
        write(tmp_path / "f.h5", **options)
    assert list(tmp_path.iterdir()) == []


def damaged(path, change) -> None:
    with h5py.File(path, "r+") as file:
        change(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file["features"].write_direct(np.ones((4, 3), np.float32)), "checksum"),
        (lambda file: file["sha256"].__setitem__(0, "0" * 64), "checksum"),
        (lambda file: file.attrs.__setitem__("complete", False), "not written to its end"),
        (lambda file: file.attrs.__delitem__("complete"), "not written to its end"),
        (lambda file: file.attrs.__setitem__("rows", 5), "5 rows by its attribute"),
        (lambda file: file.attrs.__setitem__("schema", 2), "schema 2"),
        (lambda file: file.__delitem__("sha256"), "lacks sha256"),
    ],
)
def test_nothing_wrong_is_read(tmp_path, change, message) -> None:
    write(tmp_path / "f.h5")
    damaged(tmp_path / "f.h5", change)
    with pytest.raises(FileFormatError, match=message):
        read_features(tmp_path / "f.h5")


def test_files_that_are_none(tmp_path) -> None:
    with pytest.raises(FileFormatError, match="does not exist"):
        read_features(tmp_path / "f.h5")
    (tmp_path / "f.h5").write_text("text")
    with pytest.raises(FileFormatError, match="not a whole HDF5 file"):
        read_features(tmp_path / "f.h5")
    write(tmp_path / "f.h5")
    whole = (tmp_path / "f.h5").read_bytes()
    (tmp_path / "f.h5").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match="not a whole HDF5 file"):
        read_features(tmp_path / "f.h5")


def test_values_that_are_not_finite_are_not_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("pipeline.features.table._check_block", lambda *_: None)
    write(tmp_path / "f.h5", values=np.where(np.eye(4, 3) > 0, np.inf, VALUES).astype(np.float32))
    with pytest.raises(FeaturesError, match=r"3 rows have values that are not finite, the first is a\.jpg"):
        read_features(tmp_path / "f.h5")
