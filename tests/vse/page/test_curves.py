"""Marks at snapshots and the curve of a range test."""

from __future__ import annotations

from dataclasses import replace

from finished_run import change

from sightword.report.inputs import RunFiles, read_run
from sightword.vse.page.curves import draw, snapshots
from sightword.vse.page.plots import Marks


def test_snapshots_are_marked_in_steps_and_epochs(run_folder: RunFiles) -> None:
    marks = snapshots(read_run(run_folder))
    assert marks == Marks([4.0, 8.0], [8.0, 4.0])
    assert marks.scaled(50) == Marks([200.0, 400.0], [400.0, 200.0])
    change(run_folder.metrics / "train.json", snapshots=5)  # more than the cycles explain, so the epochs are unknown
    assert snapshots(read_run(run_folder)).kept == ()


def test_every_kept_epoch_is_marked_and_the_untrained_encoders_too(run_folder: RunFiles) -> None:
    change(run_folder.metrics / "train.json", snapshots=9)
    run = read_run(run_folder)
    run = replace(run, description={**run.description, "training": {**run.training, "snapshots": "epoch"}})
    assert snapshots(run).kept == list(range(9))


def test_loss_is_drawn_over_the_rates_of_a_range_test_alone(run_folder: RunFiles) -> None:
    rates = [f"{step}\t{1e-6 * 1.02**step}" for step in range(1, 401)]
    (run_folder.plots / "train/learning_rate.tsv").write_text("\n".join(["step\tlearning_rate", *rates]) + "\n")
    run = read_run(run_folder)
    assert "Loss over the learning rate" not in dict(draw(run))
    drawing = dict(
        draw(replace(run, description={**run.description, "training": {**run.training, "schedule": "range"}}))
    )["Loss over the learning rate"]
    losses = [float(line.split("\t")[1]) for line in (run_folder.plots / "train/loss.tsv").read_text().splitlines()[1:]]
    best = losses.index(min(losses)) + 1
    assert f"{min(losses):.3g}, at the rate {1e-6 * 1.02**best:.3g}" in drawing.title
    assert drawing.figure.axes[0].get_xscale() == "log"
