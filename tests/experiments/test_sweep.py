"""The command, with a queue that only notes what it is asked: what is queued, followed and told."""

from __future__ import annotations

import contextlib

import pytest

from pipeline.cli import main, sweeps
from pipeline.experiments import queue
from pipeline.experiments.grid import sections
from sightword.io import yaml_reader

GRID = "name: g\nblocks:\n  - train.margin: [{}]\n"


class Noting:
    """A queue in which ``fails`` fail and ``loses`` vanish; the others are experiments at the next look."""

    def __init__(self, project) -> None:
        self.project, self.put_names, self.started, self.forgotten = project, [], [], []
        self.fails, self.loses, self.before = set(), set(), {}

    def states(self):
        ready = [name for name in self.put_names if name not in self.fails | self.loses]
        for name in ready[: 2 if self.started[-1:] == [2] else 1]:
            self.project.keep(name, self.params[name])
            self.put_names.remove(name)
        waiting = {name: "failed" if name in self.fails else "queued" for name in self.put_names}
        return self.before | {name: state for name, state in waiting.items() if name not in self.loses}

    def put(self, trial):
        self.params = {**getattr(self, "params", {}), trial.name: trial.params}
        self.put_names.append(trial.name)

    def start(self, _slots, count):
        self.started.append(count)

    def forget(self, states):
        self.forgotten += states

    def log(self, name):
        path = self.project.root.parent / f"{name}.log"
        path.write_bytes(b"x" * 30_000 + b"\n 10%\r 50%\rthe loss explodes\nb\r\n\n")
        return path


@pytest.fixture
def noting(project, monkeypatch):
    found = Noting(project)
    monkeypatch.setattr(queue, "opened", lambda _: contextlib.nullcontext(found))
    monkeypatch.setattr(sweeps, "POLL", 0.0)
    monkeypatch.setattr(queue, "listing", lambda *_: [])
    return found


def sweep(project, margins, *options, more=""):
    return main(["sweep", project.grid(GRID.format(margins) + more), *options])


def test_finished_experiments_are_not_queued_again(project, noting, capsys):
    assert sweep(project, "0.1, 0.3, 0.4", "--slots", "2", more="seeds: 1\n") == 0
    assert noting.started == [1, 2]  # the first runs alone, and so runs the shared stages
    assert sorted(noting.params) == [f"g-margin{margin}-seed0" for margin in (0.1, 0.3, 0.4)]
    said = capsys.readouterr().err
    assert "0 done already\n3 to run, 2 at a time on the CPU" in said
    assert "no experiment with results has such a name" in said  # this queue leaves none
    assert sweep(project, "0.1, 0.5", more="seeds: 1\n") == 0
    assert len(noting.params) == 4
    project.write("README.md", "new")
    project.commit()
    assert sweep(project, "0.1", more="seeds: 1\n") == 0  # from another commit it is another experiment
    assert "0 done already" in capsys.readouterr().err


def test_failed_and_lost_experiments_are_told_and_tried_again(project, noting, capsys):
    noting.fails, noting.loses = {"g-margin0.9"}, {"g-margin0.8"}
    assert sweep(project, "0.1, 0.9, 0.8") == 1
    said = capsys.readouterr().err
    assert "FAILED   g-margin0.9; full log: ../g-margin0.9.log\n" in said
    assert "    the loss explodes\n    b\n" in said
    assert "2 failed: g-margin0.9, g-margin0.8. The same command tries them again." in said
    noting.before = {"g-margin0.9": "failed", "g-margin0.8": "dead", "g-margin0.1": "failed"}
    noting.put_names, noting.fails, noting.loses = [], set(), set()
    assert sweep(project, "0.1, 0.9, 0.8") == 0
    assert noting.forgotten == ["g-margin0.9", "g-margin0.8"]


def test_queued_and_running_experiments_are_followed_only(project, noting):
    sweep(project, "0.2")
    noting.before = {"g-margin0.1": "running"}
    noting.params = {"g-margin0.1": {**noting.params["g-margin0.2"]}}
    text = (project.folder / "params.yaml").read_text()
    params = sections(yaml_reader.parse(text, ""))
    params["train"]["margin"] = 0.1
    project.keep("g-margin0.1", params, later=True)
    looks = []
    noting.states = lambda: looks.append(1) or (project.keep_now() if len(looks) == 3 else None) or noting.before
    assert sweep(project, "0.1") == 0
    assert list(noting.params) == ["g-margin0.1"]
    assert noting.put_names == []


def test_who_stops_to_follow_is_told_how_to_end_the_queue(project, noting, monkeypatch, capsys):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps.time, "sleep", interrupt)
    assert sweep(project, "0.1") == 130
    assert "The experiments go on. The same command follows them; `dvc queue stop --kill`" in capsys.readouterr().err


def test_a_name_that_other_parameters_have_is_refused(project, noting, capsys):
    assert sweep(project, "0.1") == 0
    assert sweep(project, "0.1, 0.3", more="set: {train.hidden: 8}\n") == 1
    assert "have other parameters: g-margin0.1" in capsys.readouterr().err


def test_a_dry_run_lists_states_and_runs_nothing(project, noting, capsys):
    sweep(project, "0.1")
    calls = list(noting.started)
    assert sweep(project, "0.1, 0.3", "--dry-run", "--csv", more="seeds: 1\n") == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "experiment,state,train.margin,train.seed"
    assert table[1] == "g-margin0.1-seed0,to do,0.1,0"
    assert sweep(project, "0.1, 0.3", "--dry-run") == 0
    assert "g-margin0.1  done " in capsys.readouterr().out
    assert noting.started == calls


def test_some_experiments_can_be_chosen(project, noting, capsys):
    assert sweep(project, "0.1", "--only", ".*seed9[01]", more="seeds: 101\n") == 0
    assert list(noting.params) == ["g-margin0.1-seed90", "g-margin0.1-seed91"]
    assert sweep(project, "0.1", "--only", "nothing") == 1
    assert "no experiment has such a name" in capsys.readouterr().err
    assert sweep(project, "0.1", "--only", "(") == 1
    assert "--only '(': not a regular expression" in capsys.readouterr().err
    for wrong in (["sweep", "--slots", "2"], ["sweep", "g", "--slots", "0"]):
        with pytest.raises(SystemExit) as raised:
            main(wrong)
        assert raised.value.code == 2


@pytest.mark.parametrize("base", ["params.yaml", "recipe"])
def test_the_parameters_in_use_are_told(project, noting, capsys, base):
    text = (project.folder / "params.yaml").read_text().replace("batch: 32", "batch: 16")
    project.write("params.yaml", text)
    assert sweep(project, "0.1", more="base: sample\n" if base == "recipe" else "") == 0
    assert f"parameters of {'the recipe sample' if base == 'recipe' else base}" in capsys.readouterr().err
    assert noting.params["g-margin0.1"]["train"]["batch"] == (32 if base == "recipe" else 16)
