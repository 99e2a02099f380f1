"""The command, with a queue that only notes what it is asked; and the slots: a GPU or a share of the cores each."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

from pipeline.cli import main, sweeps
from pipeline.experiments import queue, slots
from pipeline.experiments.grid import sections
from sightword import machine as machines
from sightword.io import yaml_reader

GRID = "name: g\nblocks:\n  - train.margin: [{}]\n"


class Noting:
    """A queue in which ``fails`` fail and ``loses`` vanish; the others are experiments at the next look."""

    def __init__(self, project) -> None:
        self.project, self.put_names, self.started, self.forgotten = project, [], [], []
        self.fails, self.loses, self.before, self.living = set(), set(), {}, 2

    def states(self):
        ready = [name for name in self.put_names if name not in self.fails | self.loses]
        for name in ready[: 2 if self.started[-1:] == [2] else 1]:
            self.project.keep(name, self.params[name])
            self.put_names.remove(name)
        waiting = {name: "failed" if name in self.fails else "queued" for name in self.put_names}
        return self.before | {name: state for name, state in waiting.items() if name not in self.loses}

    def check(self):
        pass

    def put(self, trial):
        self.params = {**getattr(self, "params", {}), trial.name: trial.params}
        self.put_names.append(trial.name)

    def start(self, _slots, count):
        self.started.append(count)

    def alive(self):
        return self.living

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
    monkeypatch.setattr(sweeps, "SHARE", 0)
    monkeypatch.setattr(queue, "listing", lambda *_: [])
    return found


def sweep(project, margins, *options, more=""):
    return main(["sweep", project.grid(GRID.format(margins) + more), *options])


def test_finished_experiments_are_not_queued_again(project, noting, capsys):
    assert sweep(project, "0.1, 0.3, 0.4", "--slots", "2", more="seeds: 1\n") == 0
    assert noting.started == [1, 2]  # the first runs alone, and so runs the shared stages
    assert sorted(noting.params) == [f"g-margin{margin}-seed0" for margin in (0.1, 0.3, 0.4)]
    said = capsys.readouterr().err
    assert "0 done already\n3 to run, the first alone, then 2 at a time on the CPU" in said
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


@pytest.mark.parametrize(("living", "started"), [(2, [1, 2]), (1, [1, 2, 2])])
def test_a_lost_worker_of_several_is_replaced(project, noting, living, started):
    noting.living = living
    assert sweep(project, ", ".join(f"0.{number}" for number in range(10, 22)), "--slots", "2") == 0
    assert noting.started == started


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


@pytest.fixture
def machine(monkeypatch):
    """A function that sets what this machine has."""
    sizes = {"SC_PAGE_SIZE": 1}

    def set_up(gpus=0, cores=8, memory=2**40, device=None):
        monkeypatch.setattr(slots, "_count", lambda: gpus)
        sizes["SC_PHYS_PAGES"] = memory
        monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        monkeypatch.delenv("SIGHTWORD_DEVICE", raising=False)
        if device:
            monkeypatch.setenv("SIGHTWORD_DEVICE", device)

    return set_up


def choose(wanted=None, experiments=100, **environment):
    return slots.choose(wanted, experiments, environment=environment)


@pytest.mark.parametrize(
    ("gpus", "device", "visible", "wanted", "expected"),
    [
        (3, None, None, None, "0,1,2"),
        (2, None, "5, GPU-ab", None, "5,GPU-ab"),
        (2, None, "-1", 1, None),
        (4, "cuda:2", None, None, "2"),
        (4, "cpu", None, 2, None),
        (2, None, None, 5, "0,1,0,1,0"),
    ],
)
def test_each_visible_gpu_is_one_slot(machine, gpus, device, visible, wanted, expected):
    machine(gpus, device=device)
    found = choose(wanted, **{} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert found.environment.get(slots.GPUS) == expected
    assert found.count == len((expected or "," * ((wanted or 1) - 1)).split(","))


@pytest.mark.parametrize(
    ("cores", "memory", "wanted", "experiments", "count", "threads"),
    [
        (2, 2**40, None, 9, 1, "2"),
        (16, 2**40, None, 9, 8, "2"),
        (16, 9 * 2**30, None, 9, 2, "8"),
        (2, 2**40, 2, 9, 2, "1"),
        (2, 2**40, 5, 1, 1, "2"),
    ],
)
def test_cores_are_shared_out(machine, cores, memory, wanted, experiments, count, threads):
    machine(cores=cores, memory=memory)
    found = choose(wanted, experiments)
    assert (found.count, found.environment["SIGHTWORD_THREADS"]) == (count, threads)


def test_what_the_user_has_set_stays(machine, monkeypatch, tmp_path):
    machine(cores=8)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGHTWORD_SCRATCH", "half-done")
    found = choose(1, SIGHTWORD_THREADS="3").environment
    assert (found["SIGHTWORD_THREADS"], found["SIGHTWORD_WORKERS"]) == ("3", "8")
    assert found["SIGHTWORD_SCRATCH"] == str(tmp_path / "half-done")  # found from DVC's workspaces too


TAKES = """
import os, sys
from pipeline.experiments.slots import take_gpu
from sightword.machine import current
take_gpu(current())
print(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("SIGHTWORD_DEVICE"), flush=True)
sys.stdin.read()
"""


def test_a_process_takes_a_gpu_until_it_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTWORD_SCRATCH", str(tmp_path))
    monkeypatch.setenv(slots.GPUS, "3,7,3")
    monkeypatch.delenv("SIGHTWORD_DEVICE")

    def start():
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", TAKES], stdin=pipe, stdout=pipe, text=True)

    running = [start() for _ in range(3)]
    assert sorted(one.stdout.readline() for one in running) == ["3 cuda\n", "3 cuda\n", "7 cuda\n"]
    waiting = start()
    running[0].kill()
    running[0].communicate()
    assert waiting.stdout.readline().endswith(" cuda\n")
    for one in (*running[1:], waiting):
        one.communicate()
    monkeypatch.delenv(slots.GPUS)
    monkeypatch.setenv("SIGHTWORD_SCRATCH", "/dev/null/none")  # a stage on a CPU takes nothing
    here = machines.current()
    assert slots.take_gpu(here) is here
