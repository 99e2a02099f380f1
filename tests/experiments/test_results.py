"""Experiments over their seeds, on what `dvc exp show --json` printed of a real queue on the sample.

The recording (support/experiments.json) was thinned: fewer experiments, parameters, metrics and dependencies.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import subprocess
import sys
import types

import numpy as np
import pytest
from dvc.repo.experiments.queue.celery import LocalCeleryQueue

from pipeline.cli import main
from pipeline.experiments import queue, results
from sightword.errors import FileFormatError, ParamsError


@pytest.fixture
def recorded(repository):
    return json.loads((repository / "tests/support/experiments.json").read_text())


def of(recorded, name):
    """The data of one experiment, straight from the recording."""
    return next(one["revs"][0]["data"] for one in recorded[1]["experiments"] if one["revs"][0]["name"] == name)


def grouped(recorded, *metrics, **options):
    return results.groups(results.read(recorded).experiments, metrics, **options)


def named(found, name):
    return next(group for group in found if name in " ".join(group.names))


def cell(group, column):
    """What the table shows of a group."""
    header, line = results.table([group])
    return line[header.index(column)]


def test_three_seeds_are_one_row_with_mean_and_sample_deviation(recorded):
    group = named(grouped(recorded), "seed-2")
    assert group.names == ["seed-1=size-3", "seed-2", "seed-3"]
    assert list(group.metrics) == ["dev_r10", "image_r1", "image_r10", "caption_r1", "caption_r10", "sts", "sick"]
    for metric, values in group.metrics.items():
        wanted = [of(recorded, name)["metrics"]["metrics/summary.json"]["data"][metric] for name in group.names[1:]]
        wanted.insert(0, of(recorded, "seed-1")["metrics"]["metrics/summary.json"]["data"][metric])
        assert values == wanted
        assert results.deviation(values) == pytest.approx(np.std(wanted, ddof=1))
    dev = group.metrics["dev_r10"]
    assert cell(group, "runs") == "3"
    assert cell(group, "dev_r10") == f"{np.mean(dev):.1f} ± {np.std(dev, ddof=1):.1f}"


def test_the_same_run_twice_counts_once_and_a_single_run_has_no_deviation(recorded):
    found = grouped(recorded, "dev_r10")
    assert sum(len(group.names) for group in found) == 7  # eight with results, of which two are the same run
    single = named(found, "max")
    assert results.deviation(single.metrics["dev_r10"]) is None
    assert "±" not in " ".join(results.table([single])[1])


def test_what_has_no_results_is_left_out_by_name(recorded):
    listing = results.read(recorded)
    assert listing.left_out == ["later (queued)", "broken (failed)"]
    assert "workspace" not in [one.name for one in listing.experiments]
    assert "main" in [one.name for one in listing.experiments]
    recorded[1]["experiments"][0]["executor"]["state"] = "running"
    recorded[1]["experiments"][1]["revs"][0].update(data=None, error={"msg": "gone", "type": ""})
    assert {"seed-3 (running)", "seed-2 (cannot be read)"} <= set(results.read(recorded).left_out)


def test_only_what_was_varied_has_a_column_and_rows_go_by_it(recorded):
    found = grouped(recorded)
    assert list(found[0].varied) == ["train.cell", "train.hidden", "train.pooling", "train.epochs", "train.cycle"]
    assert [(g.varied["train.cell"], g.varied["train.hidden"]) for g in found] == [
        *[("gru", hidden) for hidden in (32, 48, 48, 96)],
        ("lstm", 32),
    ]


def test_other_code_or_data_is_another_group(recorded):
    of(recorded, "seed-3")["deps"]["stages/train.py"]["hash"] = "0" * 32
    found = grouped(recorded)
    assert sorted(len(group.names) for group in found if group.varied["train.pooling"] == "attention") == [
        1,
        1,
        1,
        1,
        2,
    ]
    assert {group.varied["inputs"] for group in found} == {1, 2}
    outputs = copy.deepcopy(recorded)
    of(outputs, "seed-2")["deps"]["models/encoder"]["hash"] = "1" * 32  # made by a stage: no input
    assert [group.names for group in grouped(outputs)] == [group.names for group in found]


def test_metrics_of_any_file_by_regular_expression(recorded):
    found = named(grouped(recorded, r"test\.full\..*\.r10", "parameters"), "max")
    wanted = of(recorded, "max")["metrics"]["metrics/retrieval.json"]["data"]["test"]["full"]
    assert list(found.metrics)[-1] == "parameters"  # in the order they were asked for
    assert found.metrics == {
        "parameters": [of(recorded, "max")["metrics"]["metrics/train.json"]["data"]["parameters"]],
        "test.full.caption_to_image.r10": [wanted["caption_to_image"]["r10"]],
        "test.full.image_to_caption.r10": [wanted["image_to_caption"]["r10"]],
    }
    both = grouped(recorded, "best_r10|snapshots")
    assert list(both[0].metrics) == [
        "metrics/train.json:snapshots",
        "metrics/select.json:snapshots",
        "best_r10",
    ]


def test_the_seed_and_the_summary_are_those_of_the_pipeline_that_was_varied(recorded):
    for place, name in enumerate(("seed-2", "seed-3", "max", "size-5")):
        data = of(recorded, name)
        params = {"train": {"seed": place % 2, "margin": 1.0 + place // 2}}
        data["params"] = {**of(recorded, "seed-1")["params"], "hypernyms/params.yaml": {"data": params}}
        data["metrics"]["metrics/hypernyms/summary.json"] = {"data": {"accuracy": 90.0 + place}}
    every = [one for one in results.read(recorded).experiments if one.name in ("seed-2", "seed-3", "max", "size-5")]
    found = results.groups(every)
    assert [group.varied["hypernyms/params.yaml:train.margin"] for group in found] == [1.0, 2.0]
    assert [group.metrics for group in found] == [{"accuracy": [90.0, 91.0]}, {"accuracy": [92.0, 93.0]}]
    assert [group.names for group in found] == [["seed-2", "seed-3"], ["max", "size-5"]]


def test_a_metric_that_some_runs_lack(recorded):
    del of(recorded, "seed-2")["metrics"]["metrics/summary.json"]["data"]["sts"]
    group = named(grouped(recorded, "sts"), "seed-2")
    assert cell(group, "sts").endswith(" (2)")
    for name in ("seed-1", "seed-3", "size-3"):
        del of(recorded, name)["metrics"]["metrics/summary.json"]["data"]["sts"]
    assert cell(named(grouped(recorded, "sts"), "seed-2"), "sts") == "-"
    del of(recorded, "max")["metrics"]["metrics/summary.json"]  # as in commits before there was such a file
    assert cell(named(grouped(recorded, "dev_r10"), "max"), "dev_r10") == "-"


@pytest.fixture
def git(tmp_path):
    """Git in a new repository."""

    def run(*words):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        done = subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    run("init", "-q")
    return run


def locked(params, metrics):
    """A lock whose first stage reads parameters, and whose second one writes metrics."""
    return json.dumps(
        {
            "stages": {
                "train": {"cmd": "-", "params": {"params.yaml": params}, "outs": [{"path": "model", "md5": "1"}]},
                "judge": {"cmd": "-", "deps": [{"path": "model", "md5": "1"}], "outs": [{"path": metrics, "md5": "2"}]},
            }
        }
    )


def test_a_commit_whose_lock_has_other_parameters_is_in_no_group(recorded, tmp_path, git, capsys, monkeypatch):
    own = {name: of(recorded, name)["params"]["params.yaml"]["data"]["train"] for name in ("seed-2", "seed-3")}
    revisions = {one["revs"][0]["name"]: one["revs"][0] for one in recorded[1]["experiments"]}
    (tmp_path / "dvc.yaml").write_text("stages: {}")
    for name, train, metrics in (
        ("seed-2", own["seed-2"], "metrics/summary.json"),
        ("seed-3", {**own["seed-3"], "hidden": 7}, "metrics/summary.json"),
        ("size-5", {**own["seed-3"], "hidden": 7}, "metrics/select.json"),
    ):
        (tmp_path / "dvc.lock").write_text(locked({"train": train}, metrics))
        git("add", "-A")
        git("commit", "-qm", name)
        revisions[name]["rev"] = git("rev-parse", "HEAD")
    listing = results.read(recorded, tmp_path)
    found = results.groups(listing.experiments)
    assert named(found, "seed-2").names == ["seed-1=size-3", "seed-2"]
    assert named(found, "size-5").names == ["size-5"]  # its summary is of no stage of the lock
    reason = "seed-3 (its metrics are not of its parameters: train.hidden is 48, in dvc.lock 7)"
    assert results.left_out(listing, found) == [reason, "later (queued)", "broken (failed)"]
    by_select = results.groups(listing.experiments, ["best_r10"])
    assert "size-5" not in str([group.names for group in by_select])
    assert "seed-3" in str([group.names for group in by_select])
    only = results.only(listing, "seed-3")
    assert results.left_out(only, results.groups(only.experiments)) == [reason]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(queue, "listing", lambda *_: recorded)
    assert main(["sweep", "--only", "seed-3"]) == 0
    assert capsys.readouterr().err == f"no experiment of the last commit has results yet\nleft out: {reason}\n"


def test_metrics_that_dvc_does_not_list_are_read_from_git(recorded, tmp_path, git):
    (tmp_path / "metrics/deep").mkdir(parents=True)
    (tmp_path / "metrics/deep/more.json").write_text('{"test": {"mrr": 0.25, "interval": [0, 1]}}')
    (tmp_path / "metrics/broken.json").write_text("{")
    git("add", "-A")
    git("commit", "-qm", "numbers")
    recorded[1]["experiments"][0]["revs"][0]["rev"] = git("rev-parse", "HEAD")
    name = recorded[1]["experiments"][0]["revs"][0]["name"]
    found = {one.name: one.metrics for one in results.read(recorded, tmp_path).experiments}
    assert found[name]["metrics/deep/more.json"] == {"test.mrr": 0.25}
    assert (
        found[name]["metrics/summary.json"]["dev_r10"]
        == of(recorded, name)["metrics"]["metrics/summary.json"]["data"]["dev_r10"]
    )
    assert all("metrics/deep/more.json" not in metrics for other, metrics in found.items() if other != name)


def test_mistakes_are_told(recorded):
    every = results.read(recorded).experiments
    with pytest.raises(ParamsError, match=r"mrr: no experiment has such a metric; expected one of best_r10, "):
        results.groups(every, ["dev_r10", "mrr"])
    for wrong in ({"a": 1}, [1], [{"rev": "x"}], None):
        with pytest.raises(FileFormatError, match="is not a listing of experiments"):
            results.read(wrong)


@pytest.fixture
def listed(recorded, tmp_path, monkeypatch):
    """A project in which DVC lists the recorded experiments."""
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(queue, "listing", lambda *_: recorded)


@pytest.mark.usefixtures("listed")
def test_the_command_prints_a_table_or_csv(capsys):
    assert main(["sweep"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split()[-2:] == ["sick", "experiments"]
    assert "seed-1=size-3 and 2 more" in out
    assert err == "left out: later (queued), broken (failed)\n"
    assert main(["sweep", "--csv", "--metric", "sts"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["sts_sd"] == "" for row in rows] == [row["runs"] == "1" for row in rows]


def test_the_command_asks_dvc_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep"]) == 1
    assert "this command needs a project" in capsys.readouterr().err
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    assert main(["sweep"]) == 1
    assert "dvc exp show failed: you are not inside of a DVC repository" in capsys.readouterr().err
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    dvc = [sys.executable, "-m", "dvc"]
    for command in (["git", "init", "-q"], [*dvc, "init", "-q"], ["git", *identity, "commit", "-qm", "start"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert main(["sweep"]) == 0
    assert "no experiment of the last commit has results yet" in capsys.readouterr().err

    # its worker was killed
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True)
    entry = types.SimpleNamespace(baseline_rev=head.stdout.strip(), stash_rev="a" * 40, name="ending")
    monkeypatch.setattr(LocalCeleryQueue, "iter_active", lambda _: iter([entry]))
    assert main(["sweep"]) == 0
    assert ", ending (dead)\n" in capsys.readouterr().err


@pytest.mark.usefixtures("listed")
def test_experiments_by_name(recorded, capsys):
    assert main(["sweep", "--only", "seed-.*", "--csv"]) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["experiments"] for row in rows] == ["seed-1 seed-2 seed-3"]
    assert "train.cell" not in rows[0]  # the same in all that are left
    assert err == ""
    some = results.only(results.read(recorded), "main|broken")
    assert ([one.name for one in some.experiments], some.left_out) == (["main"], ["broken (failed)"])
    for pattern, message in (("seed", "no experiment with results has such a name"), ("(", "--only '(': not a reg")):
        assert main(["sweep", "--only", pattern]) == 1
        assert message in capsys.readouterr().err
