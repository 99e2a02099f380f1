"""Features as a data set: the same numbers for pyarrow and pandas, in row groups, and a card of the hub's form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipeline import cli
from sightword.export import feature_table
from sightword.features.tables.table import Origin, read_features, write_features

ORIGIN = Origin("resnet152", "avgpool", "IMAGENET1K_V1", "ab" * 32, '{"crop":224}', "fp32", "extracted")


@pytest.fixture
def features(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    names = [f"p{place}.jpg" for place in range(7)]
    write_features("features.h5", names, ["cd" * 32] * 7, 3, [(np.arange(7), values)], ORIGIN, rejected=["bad.jpg"])
    return Path("features.h5")


def test_exported_features_read_by_pyarrow_and_pandas_are_the_same(features, monkeypatch, capsys) -> None:
    monkeypatch.setattr(feature_table, "BLOCK", 3 * 3 * 4)
    assert cli.main(["export-features", "features.h5", "out"]) == 0
    assert capsys.readouterr().out.startswith("out/features.parquet: 7 pictures, 3 numbers each, ")
    file = pq.ParquetFile("out/features.parquet")
    assert [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)] == [3, 3, 1]
    assert file.schema_arrow.field("vector").type == pa.list_(pa.float32(), 3)
    table, expected = pd.read_parquet("out/features.parquet"), read_features(features)
    assert list(table.columns[:3]) == ["id", "vector", "sha256"]
    assert list(table["id"]) == expected.image_ids
    np.testing.assert_array_equal(np.stack(list(table["vector"])), expected.features)
    for name, value in vars(ORIGIN).items():
        assert set(table[name]) == {value}


def test_the_card_of_exported_features_names_the_file_and_the_pictures_without_a_row(features) -> None:
    assert cli.main(["export-features", "features.h5", "out"]) == 0
    card = Path("out/README.md").read_text()
    head = yaml.safe_load(card.split("---\n")[1])
    assert head["configs"] == [{"config_name": "default", "data_files": "features.parquet"}]
    assert head["size_categories"] == ["n<1K"]
    assert "have no row: 1." in card
    assert '| `transform` | in all rows `{"crop":224}` |' in card


def test_features_that_cannot_be_exported_leave_nothing(features, capsys) -> None:
    whole = features.read_bytes()
    features.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    Path("there").mkdir()
    for arguments, said in (
        (["features.h5", "out"], "features.h5: is damaged or was changed"),
        (["none.h5", "out"], "none.h5: does not exist. Run the stage features first."),
        (["features.h5", "there"], "there: exists. Name a new folder."),
    ):
        assert cli.main(["export-features", *arguments]) == 1
        assert f"sightword: {said}" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["features.h5", "there"]
    assert list(Path("there").iterdir()) == []


def test_the_size_is_in_the_words_of_the_hub() -> None:
    words = {0: "n<1K", 999: "n<1K", 1000: "1K<n<10K", 8000: "1K<n<10K", 5_000_000: "1M<n<10M", 10_000_000: "n>10M"}
    assert {count: feature_table._size(count) for count in words} == words
