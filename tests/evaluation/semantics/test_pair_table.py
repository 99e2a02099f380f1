from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sightword.errors import FileFormatError
from sightword.evaluation.semantics.evaluation import judge
from sightword.evaluation.semantics.results import SCHEMA, read_pairs, write_pairs
from sightword.io.files import write_table


@pytest.fixture
def found(data, bag_encoder):
    return judge(bag_encoder, ["STSOwn", "SICKRelatedness"], data, ["a man"])


def test_a_written_table_is_read_back(found, tmp_path):
    write_pairs(tmp_path / "pairs.parquet", found.judged)
    table = read_pairs(tmp_path / "pairs.parquet")
    assert list(table.subtasks) == [(row.task, row.subtask) for row in found.judged]
    for row, pairs in zip(found.judged, table.subtasks.values(), strict=True):
        assert pairs.first == row.pairs.first
        assert pairs.second == row.pairs.second
        assert np.array_equal(pairs.gold, row.pairs.gold)
        assert np.array_equal(pairs.score, row.scores)
        assert np.array_equal(pairs.first_seen, row.seen[0])
        assert np.array_equal(pairs.second_seen, row.seen[1])


def test_without_training_captions_the_masks_are_none(data, bag_encoder, tmp_path):
    write_pairs(tmp_path / "pairs.parquet", judge(bag_encoder, ["STSOwn"], data).judged)
    pairs = read_pairs(tmp_path / "pairs.parquet").subtasks["STSOwn", "street"]
    assert pairs.first_seen is pairs.second_seen is None
    assert len(pairs) == 28


def test_the_same_results_have_the_same_bytes(found, tmp_path):
    for name in ("one", "two"):
        write_pairs(tmp_path / name, found.judged)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_an_empty_evaluation_gives_an_empty_table(tmp_path):
    write_pairs(tmp_path / "pairs.parquet", [])
    assert read_pairs(tmp_path / "pairs.parquet").subtasks == {}


def test_a_table_out_of_order_is_refused(found, tmp_path):
    write_pairs(tmp_path / "pairs.parquet", found.judged)
    table = pq.read_table(tmp_path / "pairs.parquet")
    write_table(tmp_path / "mixed.parquet", table.take([1, 0, *range(2, len(table))]))
    with pytest.raises(FileFormatError, match=r"the pairs of STSOwn park\.life are repeated or not in order"):
        read_pairs(tmp_path / "mixed.parquet")
    write_table(tmp_path / "twice.parquet", pa.concat_tables([table, table]))
    with pytest.raises(FileFormatError, match="are repeated or not in order"):
        read_pairs(tmp_path / "twice.parquet")


def test_columns_of_another_type_are_refused(found, tmp_path):
    write_pairs(tmp_path / "pairs.parquet", found.judged)
    table = pq.read_table(tmp_path / "pairs.parquet")
    text = pa.array([str(score) for score in table["score"].to_pylist()])
    write_table(tmp_path / "text.parquet", table.set_column(SCHEMA.get_field_index("score"), "score", text))
    with pytest.raises(FileFormatError, match="the column score is of string; expected double"):
        read_pairs(tmp_path / "text.parquet")
    none = pa.array([None, *table["first"].to_pylist()[1:]], pa.string())
    write_table(tmp_path / "none.parquet", table.set_column(SCHEMA.get_field_index("first"), "first", none))
    with pytest.raises(FileFormatError, match="the column first has empty cells"):
        read_pairs(tmp_path / "none.parquet")
    write_table(tmp_path / "less.parquet", table.drop_columns(["gold"]))
    with pytest.raises(FileFormatError, match="has no column gold"):
        read_pairs(tmp_path / "less.parquet")
