"""Precomputed features pass through the same file, and only whole."""

from __future__ import annotations

import numpy as np
import pytest

from sightword.errors import FeaturesError, FileFormatError
from sightword.features.precomputed import convert
from sightword.features.settings import FeaturesSettings
from sightword.features.table import Origin, read_features, write_features

IDS = ["b", "a", "c"]
VALUES = np.array([[1, 2], [3, 4], [5, 6]], np.float16)


@pytest.fixture
def given(tmp_path):
    np.save(tmp_path / "x.npy", VALUES)
    (tmp_path / "x.txt").write_bytes("\r\n".join(IDS).encode() + b"\r\n\r\n")
    return FeaturesSettings(source="precomputed", inputs=str(tmp_path), precomputed="x.npy", precomputed_ids="x.txt")


def test_rows_go_to_their_pictures(tmp_path, given) -> None:
    assert convert(tmp_path / "out.h5", ["c", "a"], given) == 1
    table = read_features(tmp_path / "out.h5")
    assert table.image_ids == ["a", "c"]
    assert table.features.tolist() == [[3, 4], [5, 6]]
    assert table.attributes["origin"].startswith("precomputed: x.npy (sha256 ")
    assert table.attributes["precision"] == "float16"
    assert table.attributes["backbone"] == ""


def test_missing_rows_are_counted_and_named(tmp_path, given) -> None:
    with pytest.raises(FeaturesError, match=r"x\.txt: 2 of 3 pictures have no features: d, e"):
        convert(tmp_path / "out.h5", ["a", "d", "e"], given)
    assert not (tmp_path / "out.h5").exists()


def test_ids_that_differ_by_their_file_ending_get_a_hint(tmp_path, given, caplog) -> None:
    with pytest.raises(FeaturesError):
        convert(tmp_path / "out.h5", ["a.jpg"], given)
    assert "file endings" in caplog.text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a\nb\na\n", "1 ids occur more than once, a on lines 1 and 3"),
        ("a\nb\n", "has 3 rows but x.txt has 2 ids"),
        ("a\n\nb\nc\n", "line 2: is blank"),
    ],
)
def test_ids_that_do_not_fit(tmp_path, given, lines, message) -> None:
    (tmp_path / "x.txt").write_text(lines)
    with pytest.raises(FeaturesError, match=message):
        convert(tmp_path / "out.h5", ["a"], given)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((3, 2), np.int64), "expected floats of shape"),
        (np.zeros(3, np.float32), "expected floats of shape"),
        (np.array([[0, 0], [np.nan, 0], [0, 0]]), "1 rows have values that are not finite: a"),
        (np.array([{}, 1, "x"], object), "not a whole .npy file"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, given, values, message) -> None:
    np.save(tmp_path / "x.npy", values, allow_pickle=True)
    with pytest.raises((FeaturesError, FileFormatError), match=message):
        convert(tmp_path / "out.h5", ["a"], given)


def test_files_that_are_not_there_or_cut(tmp_path, given) -> None:
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-3])
    with pytest.raises(FileFormatError, match=r"not a whole \.npy file"):
        convert(tmp_path / "out.h5", ["a"], given)
    (tmp_path / "x.npy").unlink()
    with pytest.raises(FileFormatError, match="do not exist"):
        convert(tmp_path / "out.h5", ["a"], given)


def test_a_file_of_our_own_keeps_what_it_says_of_itself(tmp_path) -> None:
    origin = Origin("net", "avgpool", "V1", "ab", '{"crop":8}', "bf16", "extracted")
    rows = np.arange(3)
    write_features(tmp_path / "x.h5", ["a", "b", "c"], ["1" * 64] * 3, 2, [(rows, VALUES.astype(np.float32))], origin)
    settings = FeaturesSettings(source="precomputed", inputs=str(tmp_path), precomputed="x.h5")
    assert convert(tmp_path / "out.h5", ["c", "b"], settings) == 1
    table = read_features(tmp_path / "out.h5")
    assert table.features.tolist() == [[3, 4], [5, 6]]
    assert table.sha256 == ["1" * 64] * 2
    assert (table.attributes["backbone"], table.attributes["precision"]) == ("net", "bf16")
    assert table.attributes["origin"].startswith("precomputed: x.h5")
    with pytest.raises(FeaturesError, match="1 of 1 pictures have no features: z"):
        convert(tmp_path / "out.h5", ["z"], settings)
