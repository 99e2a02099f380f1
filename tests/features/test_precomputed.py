"""Precomputed features pass through the same file, and only whole."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from sightword.errors import FeaturesError, FileFormatError, SearchError
from sightword.features.precomputed import convert
from sightword.features.settings import FeaturesSettings
from sightword.features.tables.origin import describe
from sightword.features.tables.table import Origin, read_features, write_features
from sightword.search.networks import UploadedPictures

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


def test_hdf5_of_another_program_is_told_with_a_remedy(tmp_path, given) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["features"] = VALUES
    settings = given.model_copy(update={"precomputed": "x.h5", "precomputed_ids": ""})
    with pytest.raises(FileFormatError, match=r"a file of another program .*write the vectors by numpy\.save"):
        convert(tmp_path / "out.h5", IDS, settings)


def test_missing_rows_are_counted_and_named(tmp_path, given) -> None:
    with pytest.raises(FeaturesError, match=r"x\.txt: 2 of 3 pictures have no features: d, e"):
        convert(tmp_path / "out.h5", ["a", "d", "e"], given)
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(("asked", "forms"), [("a.jpg", "ending"), ("images/a", "folder")])
def test_ids_that_differ_in_form_are_named_with_the_difference(tmp_path, given, asked, forms) -> None:
    message = rf"x\.txt: 1 of 2 pictures .* '{asked}' is there as 'a', which differs in: {forms}\. Write"
    with pytest.raises(FeaturesError, match=message):
        convert(tmp_path / "out.h5", [asked, "b"], given)


def test_ids_in_another_unicode_form_are_the_pictures(tmp_path, given) -> None:
    (tmp_path / "x.txt").write_text("b\ncafe\u0301.jpg\nc\n")
    convert(tmp_path / "out.h5", ["caf\u00e9.jpg"], given)
    table = read_features(tmp_path / "out.h5")
    assert (table.image_ids, table.features.tolist()) == (["caf\u00e9.jpg"], [[3, 4]])


def test_rows_of_only_zeros_are_told_and_kept(tmp_path, given, caplog) -> None:
    np.save(tmp_path / "x.npy", VALUES * np.array([[1], [0], [0]], np.float16))
    convert(tmp_path / "out.h5", ["a", "b"], given)
    assert "features: 1 of 2 pictures have only zeros, the first is a" in caplog.text
    attributes = read_features(tmp_path / "out.h5").attributes
    assert describe(attributes).endswith("; 1 picture with only zeros")
    convert(tmp_path / "out.h5", ["b"], given)
    assert "zero_rows" not in read_features(tmp_path / "out.h5").attributes


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a\nb\na\n", "line 3: the picture id 'a' stands twice, with the row 1 .*line 1. and the row 3"),
        ("a\nb\n", "has 3 rows but x.txt has 2 ids"),
        ("a\n\nb\nc\n", "line 2: is blank"),
        ("a\u2028b\nc\n", "has 3 rows but x.txt has 2 ids"),
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
        (np.array([[0, 0], [np.nan, 0], [0, 0]]), "1 rows have values that are not finite, or larger than 1e.15: a"),
        (np.full((3, 2), 2e15), "1 rows have values that are not finite, or larger than 1e.15: a"),
        (np.array([{}, 1, "x"], object), "not a whole .npy file"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, given, values, message) -> None:
    np.save(tmp_path / "x.npy", values, allow_pickle=True)
    with pytest.raises((FeaturesError, FileFormatError), match=message):
        convert(tmp_path / "out.h5", ["a"], given)


def test_files_that_are_not_there_or_damaged(tmp_path, given) -> None:
    whole = (tmp_path / "x.npy").read_bytes()
    np.savez(tmp_path / "archive.npz", VALUES)
    for content, message in (
        (whole[:-3], r"not a whole \.npy file"),
        (whole[:128].replace(b"'shape': (", b"'shape': (4611686018427387904, ")[:127] + b"\n", "array is too big"),
        (b"PK\x03\x04" + bytes(100), r"x\.npy: is not a whole \.npy file \(.*\)$"),
        ((tmp_path / "archive.npz").read_bytes(), r"x\.npy: is an archive of arrays; expected a \.npy file"),
        (None, "do not exist"),
    ):
        (tmp_path / "x.npy").unlink()
        if content:
            (tmp_path / "x.npy").write_bytes(content)
        with pytest.raises(FileFormatError, match=message):
            convert(tmp_path / "out.h5", ["a"], given)


def test_rows_in_the_publishers_order(tmp_path, given) -> None:
    order = [("z", "train"), ("y", "dev"), ("x", "train")]
    settings = given.model_copy(update={"precomputed_ids": "order"})
    convert(tmp_path / "out.h5", ["x", "y", "z"], settings, order)
    assert read_features(tmp_path / "out.h5").features.tolist() == [[5, 6], [3, 4], [1, 2]]
    with pytest.raises(FeaturesError, match="has 3 rows for 2 pictures"):
        convert(tmp_path / "out.h5", ["x"], settings, order[:2])


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


def settings_of(folder, name, ids="") -> FeaturesSettings:
    return FeaturesSettings(source="precomputed", inputs=str(folder), precomputed=name, precomputed_ids=ids)


def test_a_file_for_each_split_has_each_picture_once_or_as_often_as_its_captions(tmp_path) -> None:
    order = [("z", "train"), ("y", "dev"), ("x", "train")]
    np.save(tmp_path / "train_ims.npy", np.repeat(VALUES[:2], 5, axis=0))
    np.save(tmp_path / "dev_ims.npy", VALUES[2:])
    np.save(tmp_path / "testall_ims.npy", VALUES)
    settings = settings_of(tmp_path, "*_ims.npy")
    convert(tmp_path / "out.h5", ["x", "y", "z"], settings, order)
    assert read_features(tmp_path / "out.h5").features.tolist() == [[3, 4], [5, 6], [1, 2]]
    np.save(tmp_path / "train_ims.npy", np.repeat(VALUES, 2, axis=0))
    with pytest.raises(FeaturesError, match="has 3 rows a picture, but the rows 3 and 4 differ"):
        convert(tmp_path / "out.h5", ["x", "y", "z"], settings, order)
    with pytest.raises(FileFormatError, match=r"no file of a split .* expected a file such as train_ims.npy"):
        convert(tmp_path / "out.h5", ["x"], settings, [("x", "test")])


def test_new_pictures_cannot_have_precomputed_features(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    (tmp_path / "x.txt").write_text("a")
    convert(tmp_path / "out.h5", ["a"], settings_of(tmp_path, "x.npy", "x.txt"))
    with pytest.raises(
        SearchError, match=r"uses precomputed features \(precomputed: x.npy\), so new pictures cannot be added"
    ):
        UploadedPictures(read_features(tmp_path / "out.h5").attributes, {}).features(b"")


def test_random_weights_of_one_of_several_networks_are_told() -> None:
    assert describe({"backbone": "a + b", "weights": "V1 + random:7"}).endswith("random weights: for demonstration")


def test_features_of_two_networks_stand_side_by_side_each_of_length_1(tmp_path) -> None:
    values = {"one": VALUES.astype(np.float32), "two": np.array([[0, 0, 2], [3, 0, 4], [1, 1, 1]], np.float32)}
    for name, rows in values.items():
        origin = Origin(name, "avgpool", "V1", "ab", '{"crop":8}', "fp32", "extracted")
        write_features(
            tmp_path / f"{name}.h5", ["a", "b", "c"], [""] * 3, rows.shape[1], [(np.arange(3), rows)], origin
        )
    convert(tmp_path / "out.h5", ["a", "b", "c"], settings_of(tmp_path, ["one.h5", "two.h5"]))
    table = read_features(tmp_path / "out.h5")
    scaled = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in values.values()]
    np.testing.assert_allclose(table.features, np.hstack(scaled), rtol=1e-6)
    assert describe(table.attributes).startswith("one + two, V1 + V1")
    np.save(tmp_path / "two.npy", values["two"])
    (tmp_path / "ids.txt").write_text("a\nb\nc\n")
    convert(tmp_path / "mixed.h5", ["a", "b", "c"], settings_of(tmp_path, ["one.h5", "two.npy"], "ids.txt"))
    assert np.array_equal(read_features(tmp_path / "mixed.h5").features, table.features)
