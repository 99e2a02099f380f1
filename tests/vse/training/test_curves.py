"""The curves of a training: what DVC plots, and the same as DVCLive writes it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from sightword.training.checkpoint import Progress
from sightword.vse.training.curves import write_curves

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


def test_a_folder_as_dvclive_has_it(tmp_path, history):
    """https://dvc.org/doc/dvclive/how-it-works: a step and the last part of the name; the summary is nested by it."""
    write_curves(tmp_path, history)
    folder = tmp_path / "dvclive"
    series = {str(path.relative_to(folder / "plots/metrics")): tsv(path) for path in folder.rglob("*.tsv")}
    recalls = {f"dev/{direction}/r{k}.tsv" for direction in DIRECTIONS for k in (1, 5, 10)}
    assert set(series) == {"train/loss.tsv", "train/learning_rate.tsv"} | recalls
    for name, rows in series.items():
        steps = ["0", "1", "2"] if name in recalls else ["1", "2"]
        assert [list(row) for row in rows] == [["step", Path(name).stem]] * len(steps)
        assert [row["step"] for row in rows] == steps
    # The mean over an epoch's batches, not over its points.
    assert [float(row["loss"]) for row in series["train/loss.tsv"]] == pytest.approx([30 / 7, 12 / 7], rel=1e-5)
    assert [row["learning_rate"] for row in series["train/learning_rate.tsv"]] == ["0.007", "0.014"]

    summary = json.loads((folder / "metrics.json").read_text())
    assert summary.pop("step") == 2
    for name, rows in series.items():
        value = summary
        for part in name.removesuffix(".tsv").split("/"):
            value = value[part]
        assert value == pytest.approx(float(rows[-1][Path(name).stem]), rel=1e-5)


def test_a_run_before_its_first_epoch_has_recall_alone(tmp_path, history):
    untrained = {name: points[:1] for name, points in history.curves["recall"].items()}
    write_curves(tmp_path, Progress(0, {"recall": untrained}))
    assert [row["epoch"] for row in tsv(tmp_path / "recall.tsv")] == ["0"]
    assert (tmp_path / "loss.tsv").read_text() == "step\tloss\n"
    assert json.loads((tmp_path / "dvclive/metrics.json").read_text()).keys() == {"dev", "step"}


def test_the_same_history_gives_the_same_bytes(tmp_path, history):
    for name in ("one", "two"):
        write_curves(tmp_path / name, history)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) == 12
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
