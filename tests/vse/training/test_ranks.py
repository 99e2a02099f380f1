"""Several processes compute what one computes."""

from __future__ import annotations

import numpy as np
import pytest
import rank_gradients
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from several_ranks import finish, start

from sightword.errors import TrainingError
from sightword.machine import Place
from sightword.training.group import Group
from sightword.training.processes import ALONE
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.sharing import map_split, write_split
from sightword.vse.training.task import check_sizes


@pytest.fixture(scope="module")
def one() -> dict[str, torch.Tensor]:
    """What one process finds."""
    return {**dict(rank_gradients.gradients(ALONE)), **dict(rank_gradients.snapshots(ALONE))}


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.full)])
def test_each_objective_has_the_gradients_and_each_average_the_snapshots_of_one_process(
    repository, tmp_path, one, count
) -> None:
    finish(start(repository, count, "rank_gradients", str(tmp_path)))
    found = safetensors.torch.load_file(tmp_path / f"{count}.safetensors")
    assert found.keys() == one.keys()
    for name, value in one.items():
        assert value.dtype == torch.float64
        assert torch.allclose(found[name], value, rtol=1e-6, atol=1e-12), name
    assert any(value.abs().max() > 1e-3 for value in one.values())


@given(st.integers(2, 9), st.integers(2, 40))
def test_rows_of_batch_are_each_in_one_share(count, size) -> None:
    rows = np.random.default_rng(0).permutation(size)
    cuts = [Group(Place(rank=rank, ranks=count), None, torch.device("cpu")).cut(rows) for rank in range(count)]
    whole = cuts[0][0]
    assert all(np.array_equal(order, whole) for order, _ in cuts)
    assert np.array_equal(np.concatenate([whole[own] for _, own in cuts]), whole)
    assert sorted(whole) == sorted(rows)
    sizes = [len(whole[own]) for _, own in cuts]
    assert max(sizes) - min(sizes) <= 1
    assert np.array_equal(ALONE.cut(rows)[0][ALONE.cut(rows)[1]], rows)


def test_mapped_split_equals_written_one_after_its_files_are_deleted(tmp_path) -> None:
    split = rank_gradients.pairs()
    write_split(tmp_path, split)
    found = map_split(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    assert len(found.image_ids) == len(split.image_ids)
    assert np.array_equal(found.features, split.features)
    assert [ids.tolist() for ids in found.ids] == [ids.tolist() for ids in split.ids]
    for name in ("numbers", "image_of_caption"):
        assert np.array_equal(getattr(found, name), getattr(split, name))


def test_more_ranks_than_pairs_in_a_batch_are_refused() -> None:
    settings = TrainSettings(batch=4)
    check_sizes(settings, rank_gradients.pairs(), ranks=4)
    with pytest.raises(TrainingError, match=r"5 processes cannot share batches of 4 pairs \(train.batch\)"):
        check_sizes(settings, rank_gradients.pairs(), ranks=5)
