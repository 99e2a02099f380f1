"""The curves of a training, as DVC plots them."""

from __future__ import annotations

import csv

import pytest

from sightword.training.checkpoint import Progress
from sightword.vse.training.task import write_curves

DIRECTIONS = ("caption_to_image", "image_to_caption")


def recall(start):
    return {direction: {f"r{k}": float(start + k + 50 * (direction == DIRECTIONS[1])) for k in (1, 5, 10)}
            for direction in DIRECTIONS}  # fmt: skip


@pytest.fixture
def history():
    """The untrained encoders, and two epochs of seven batches, three points each, of 3, 2 and 2 batches."""
    points = [3, 5, 7, 10, 12, 14]
    recalls = {
        f"{direction}/{name}": [(0, recall(0)[direction][name]), (7, value), (14, recall(20)[direction][name])]
        for direction, values in recall(10).items()
        for name, value in values.items()
    }
    return Progress(
        14,
        {
            "loss": {"loss": list(zip(points, [6.0, 4.0, 2.0, 3.0, 1.0, 0.5], strict=True))},
            "learning_rate": {"learning_rate": [(step, step / 1000) for step in points]},
            "recall": recalls,
        },
    )


def tsv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_three_tables_for_plots(tmp_path, history):
    write_curves(tmp_path, history)
    assert tsv(tmp_path / "loss.tsv")[3] == {"step": "10", "loss": "3"}
    assert tsv(tmp_path / "learning_rate.tsv")[-1] == {"step": "14", "learning_rate": "0.014"}
    first, *_, last = tsv(tmp_path / "recall.tsv")
    assert (first["epoch"], first["caption_to_image_r10"]) == ("0", "10")
    assert last["epoch"] == "2"
    assert (last["caption_to_image_r10"], last["image_to_caption_r5"]) == ("30", "75")


def test_a_run_before_its_first_epoch_has_recall_alone(tmp_path, history):
    untrained = {name: points[:1] for name, points in history.curves["recall"].items()}
    write_curves(tmp_path, Progress(0, {"recall": untrained}))
    assert [row["epoch"] for row in tsv(tmp_path / "recall.tsv")] == ["0"]
    assert (tmp_path / "loss.tsv").read_text() == "step\tloss\n"
