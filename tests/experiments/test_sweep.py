"""Whole sweeps with a stand-in for DVC: what runs, what is kept, and what is left when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from pipeline.cli import main
from pipeline.experiments import reaper, runner, slots

GRID = "name: g\nblocks:\n  - train.margin: [{}]\n"


def sweep(project, margins, *options, more=""):
    return main(["sweep", project.grid(GRID.format(margins) + more), *options])


def folder(project) -> Path:
    return project.folder / ".dvc/tmp/sweeps/g"


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition, seconds=30.0):
    limit = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < limit, "it takes too long"
        time.sleep(0.05)
    return found


def test_each_experiment_is_kept_with_its_parameters_and_the_project_is_left_alone(project, capsys):
    project.write("README.md", "not in git yet")
    before = project.git("status", "--porcelain"), project.git("log", "--format=%H"), project.git("stash", "list")
    assert sweep(project, "0.1, 0.3", more="set: {train.hidden: 8}\nseeds: 2\n") == 0
    found = project.experiments()
    assert set(found) == {f"g-margin{margin}-seed{seed}" for margin in (0.1, 0.3) for seed in (0, 1)}
    text = project.git("show", f"{found['g-margin0.3-seed1']}:params.yaml")
    assert all(line in text for line in ("margin: 0.3", "seed: 1", "hidden: 8"))
    assert before == (
        project.git("status", "--porcelain"), project.git("log", "--format=%H"), project.git("stash", "list")
    )  # fmt: skip
    assert not list(folder(project).glob("slot-*"))
    assert (folder(project) / "logs/g-margin0.1-seed0.log").read_text() == "Running g-margin0.1-seed0\n"
    said = capsys.readouterr().err
    assert "0 done already, 4 to run, 1 at a time on the CPU" in said
    assert "4 of 4" not in said.splitlines()[-2]


def test_what_is_done_is_not_done_again_and_a_failure_does_not_stop_the_rest(project, capsys):
    assert sweep(project, "0.9, 0.1, 0.3") == 1
    said = capsys.readouterr().err
    assert "FAILED   g-margin0.9" in said
    assert "    train: the loss explodes" in said
    assert ".dvc/tmp/sweeps/g/logs/g-margin0.9.log" in said
    assert "1 failed: g-margin0.9" in said
    assert set(project.experiments()) == {"g-margin0.1", "g-margin0.3"}
    assert sweep(project, "0.9, 0.1, 0.3, 0.4") == 1
    assert [call["ended"] for call in project.calls("ended")] == ["g-margin0.1", "g-margin0.3", "g-margin0.4"]
    assert sweep(project, "0.1, 0.3") == 0
    assert len(project.calls("ended")) == 3
    project.write("README.md", "new")
    project.commit()
    assert sweep(project, "0.1") == 0  # from another commit it is another experiment
    assert len(project.calls("ended")) == 4


def test_experiments_run_side_by_side_each_on_its_gpu(project, monkeypatch, capsys):
    monkeypatch.setattr(slots, "_count", lambda: 2)
    monkeypatch.delenv("SIGHTWORD_DEVICE")
    assert sweep(project, "0.51, 0.52, 0.53, 0.54") == 0
    begun = {call["begun"]: call for call in project.calls("begun")}
    ended = {call["ended"]: call for call in project.calls("ended")}
    own = [name for name in begun if not begun[name]["begun"].startswith("g.shared")]
    assert {begun[name]["CUDA_VISIBLE_DEVICES"] for name in own} == {"0", "1"}
    assert {begun[name]["SIGHTWORD_DEVICE"] for name in own} == {"cuda"}
    together = [
        (one, other)
        for one in own for other in own
        if one < other and ended[one]["began"] < ended[other]["end"] and ended[other]["began"] < ended[one]["end"]
    ]  # fmt: skip
    assert together
    assert all(begun[one]["CUDA_VISIBLE_DEVICES"] != begun[other]["CUDA_VISIBLE_DEVICES"] for one, other in together)
    assert all(begun[one]["folder"] != begun[other]["folder"] for one, other in together)
    assert "2 at a time on GPU 0, GPU 1" in capsys.readouterr().err


def test_shared_stages_run_first_and_are_no_experiment(project):
    assert sweep(project, "0.1, 0.3", "--slots", "2") == 0
    shared, *rest = project.calls("ended")
    assert (shared["ended"], shared["stages"]) == ("g.shared-1", ["corpus", "features", "captions"])
    assert all(call["began"] >= shared["end"] for call in rest)
    assert set(project.experiments()) == {"g-margin0.1", "g-margin0.3"}


def test_what_waits_for_shared_stages_that_fail_fails_with_their_reason(project, capsys):
    text = "  - {train.margin: [0.2, 0.3], corpus.require_pictures: [false]}\n"
    assert sweep(project, "0.1, 0.5", "--slots", "2", more=text) == 1
    assert set(project.experiments()) == {"g-margin0.1", "g-margin0.5"}
    said = capsys.readouterr().err
    assert "FAILED   g.shared-2" in said
    assert "2 failed: g-margin0.2-require_pictures-false, g-margin0.3-require_pictures-false" in said
    assert "the stages it shares with others failed" in said
    assert "g-margin0.2-require_pictures-false" not in [call["begun"] for call in project.calls("begun")]


def test_a_held_lock_is_waited_for(project, monkeypatch, capsys):
    monkeypatch.setattr(runner, "WAIT", 0.1)
    assert sweep(project, "0.7") == 0
    assert capsys.readouterr().err.count("another process holds a lock") == 2
    assert (folder(project) / "logs/g-margin0.7.log").read_text().count("Unable to acquire") == 2


def test_a_lock_that_stays_held_is_a_failure(project, monkeypatch, capsys):
    monkeypatch.setattr(runner, "WAIT", 0.01)
    monkeypatch.setattr(runner, "TRIES", 2)
    assert sweep(project, "0.7") == 1
    assert "Unable to acquire lock" in capsys.readouterr().err


def test_dvc_that_leaves_no_experiment_is_a_failure(project, capsys):
    assert sweep(project, "0.6") == 1
    assert "left no experiment" in capsys.readouterr().err


def test_a_killed_sweep_leaves_nothing_running_and_goes_on(project):
    grid = project.grid(GRID.format("0.1, 0.8, 0.3"))
    process = project.start(grid)
    until(lambda: len(project.calls("begun")) == 2)
    process.kill()
    process.communicate()
    slow = project.calls("begun")[-1]
    until(lambda: not alive(slow["process"]) and not alive(slow["child"]))
    assert set(project.experiments()) == {"g-margin0.1"}
    status = project.start(grid, "--status").communicate()[0]
    assert [line.split()[:3] for line in status.splitlines()[1:]] == [
        ["g-margin0.1", "done", "0.1"], ["g-margin0.8", "half", "done"], ["g-margin0.3", "to", "do"]
    ]  # fmt: skip
    again = project.start(project.grid(GRID.format("0.1, 0.3")))
    assert again.wait() == 0, again.communicate()
    again.communicate()
    assert [call["ended"] for call in project.calls("ended")] == ["g-margin0.1", "g-margin0.3"]
    assert not list(folder(project).glob("slot-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_ends_what_it_has_started(project, number):
    process = project.start(project.grid(GRID.format("0.8, 0.3")))
    slow = until(lambda: project.calls("begun"))[0]
    process.send_signal(number)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "nothing is left running" in said
    assert "Traceback" not in said
    assert not alive(slow["process"])
    assert not alive(slow["child"])
    assert not list(folder(project).glob("slot-*"))


def test_a_sweep_that_was_told_to_outlive_its_terminal_does(project, monkeypatch):
    earlier = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        process = project.start(project.grid(GRID.format("0.1")))
    finally:
        signal.signal(signal.SIGHUP, earlier)
    until(lambda: project.calls("begun"))
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_the_same_sweep_twice_at_once_is_refused(project):
    grid = project.grid(GRID.format("0.8"))
    first = project.start(grid)
    until(lambda: project.calls("begun"))
    status = project.start(grid, "--status").communicate()
    assert "running" in status[0]
    assert f"at work (process {first.pid})" in status[1]
    second = project.start(grid)
    said = second.communicate(timeout=30)[1]
    assert second.returncode == 1
    assert f"g: this sweep is at work already (process {first.pid})" in said
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)


def test_a_name_that_other_parameters_have_is_refused_or_replaced(project, capsys):
    assert sweep(project, "0.1") == 0
    earlier = project.experiments()["g-margin0.1"]
    more = "set: {train.hidden: 8}\n"
    assert sweep(project, "0.1, 0.3", more=more) == 1
    assert "have other parameters: g-margin0.1" in capsys.readouterr().err
    assert len(project.calls("ended")) == 1
    assert sweep(project, "0.1, 0.3", "--replace", more=more) == 0
    assert project.experiments()["g-margin0.1"] != earlier
    assert "hidden: 8" in project.git("show", f"{project.experiments()['g-margin0.1']}:params.yaml")


def test_the_parameters_in_use_are_told(project, capsys):
    text = (project.folder / "params.yaml").read_text().replace("batch: 32", "batch: 16")
    project.write("params.yaml", text)
    assert sweep(project, "0.1") == 0
    assert "parameters of params.yaml" in capsys.readouterr().err
    assert "batch: 16" in project.git("show", f"{project.experiments()['g-margin0.1']}:params.yaml")
    assert sweep(project, "0.3", more="base: sample\n") == 0
    assert "parameters of the recipe sample" in capsys.readouterr().err
    assert "batch: 32" in project.git("show", f"{project.experiments()['g-margin0.3']}:params.yaml")


def test_a_dry_run_lists_and_runs_nothing(project, capsys):
    sweep(project, "0.1")
    calls = len(project.calls("begun"))
    assert sweep(project, "0.1, 0.3", "--dry-run", "--md", more="seeds: 1\n") == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| experiment | state | train.margin | train.seed |"
    assert table[2] == "| g-margin0.1-seed0 | to do | 0.1 | 0 |"
    assert sweep(project, "0.1, 0.3", "--dry-run") == 0
    assert "g-margin0.1  done " in capsys.readouterr().out
    assert len(project.calls("begun")) == calls


def test_a_dry_run_lists_also_what_could_not_be_run_yet(project, capsys):
    """A grid is written before its data are there: the list is given, and what is missing is told as by a run."""
    project.write(
        "params.yaml", (project.folder / "params.yaml").read_text().replace("data/raw/sample", "data/raw/own")
    )
    project.commit()
    assert sweep(project, "0.1, 0.3", "--dry-run") == 1
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["experiment", "g-margin0.1", "g-margin0.3"]
    assert "data/raw/own: not there" in said.err
    assert not project.calls("begun")


def test_facts_that_cannot_be_kept_cost_no_experiment(project, monkeypatch):
    monkeypatch.setenv("DVC_FAKE_FACTS", "1")
    project.write("runs", "a file where the folder should be")
    assert sweep(project, "0.1, 0.3", "--slots", "1", "--committed") == 0
    assert set(project.experiments()) == {"g-margin0.1", "g-margin0.3"}


def test_many_are_asked_about_and_some_can_be_chosen(project, capsys):
    assert sweep(project, "0.1", more="seeds: 101\n") == 1
    assert "101 experiments are to be run" in capsys.readouterr().err
    assert sweep(project, "0.1", "--only", "seed9[01]$", more="seeds: 101\n") == 0
    assert set(project.experiments()) == {"g-margin0.1-seed90", "g-margin0.1-seed91"}
    assert sweep(project, "0.1", "--only", "nothing") == 1
    assert "no experiment has such a name" in capsys.readouterr().err
    assert sweep(project, "0.1", "--only", "(") == 1
    assert "--only '(': not a regular expression" in capsys.readouterr().err
    for wrong in (["--slots", "0"], ["--status", "--dry-run"]):
        with pytest.raises(SystemExit) as raised:
            sweep(project, "0.1", *wrong)
        assert raised.value.code == 2


def test_a_project_in_a_folder_of_its_repository(build):
    project = build("models/sightword")
    assert sweep(project, "0.1, 0.3", "--slots", "2") == 0
    found = project.experiments()
    assert set(found) == {"g-margin0.1", "g-margin0.3"}
    assert "margin: 0.3" in project.git("show", f"{found['g-margin0.3']}:./params.yaml")


def test_local_settings_of_dvc_and_facts_of_runs_are_carried_over(project, monkeypatch):
    project.write(".dvc/config.local", "[core]\n    remote = mine\n")
    monkeypatch.setenv("DVC_FAKE_FACTS", "1")
    assert sweep(project, "0.1") == 0
    assert [path.name for path in (project.folder / "runs").iterdir()] == ["g-margin0.1.json"]
    assert "remote = mine" in (project.folder / "runs/g-margin0.1.json").read_text()


def test_an_experiment_starts_without_results_that_are_not_in_the_cache(project):
    stage = "  {}:\n    cmd: none\n    outs:\n    - path: {}\n      md5: {}\n"
    here, gone = "a" * 32 + ".dir", "b" * 32 + ".dir"
    stages = stage.format("corpus", "data/corpus", here) + stage.format("features", "data/features", gone)
    project.write("dvc.lock", "schema: '2.0'\nstages:\n" + stages + stage.format("captions", "a.txt", "c" * 32))
    project.commit()
    (project.folder / ".dvc/cache/files/md5/aa").mkdir(parents=True)
    project.write(f".dvc/cache/files/md5/aa/{here[2:]}", "[]")
    (project.folder / "further").mkdir()  # reads what the experiment writes, and does not run
    project.write("further/params.yaml", "")
    project.write("further/dvc.yaml", "stages:\n  judge: {cmd: none, wdir: .., deps: [models], outs: [data/judged]}\n")
    further = "schema: '2.0'\nstages:\n" + stage.format("judge", "data/judged", gone)
    project.write("further/dvc.lock", further)
    project.commit()
    assert sweep(project, "0.1") == 0
    assert project.git("show", f"{project.experiments()['g-margin0.1']}:further/dvc.lock") == further
    lock = project.git("show", f"{project.experiments()['g-margin0.1']}:dvc.lock")
    assert list(yaml.safe_load(lock)["stages"]) == ["corpus", "captions"]
    assert gone in project.git("show", "HEAD:dvc.lock")  # the project's own is left alone
    assert not project.git("status", "--porcelain")


def test_what_ignores_a_request_to_end_is_ended():
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
    process.stdout.readline()
    reaper.end({process.pid}, grace=0.3)
    assert process.wait(timeout=5) == -signal.SIGKILL
    process.stdout.close()
    reaper.end({process.pid})  # gone already: nothing happens


def test_the_guard_ends_only_what_is_still_there():
    process = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(2)]
    one, other = process
    watching = subprocess.Popen([sys.executable, "-I", reaper.__file__], stdin=subprocess.PIPE, text=True)
    watching.stdin.write(f"+{one.pid}\n+{other.pid}\nnonsense\n-{other.pid}\n")
    watching.stdin.close()
    assert one.wait(timeout=5) == -signal.SIGTERM
    assert watching.wait(timeout=5) == 0
    assert other.poll() is None
    os.killpg(other.pid, signal.SIGKILL)
    other.wait()


def test_the_tail_of_a_log_leaves_progress_bars_and_empty_lines_out(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"x" * 30_000 + b"\na\n\n 10%\r 50%\r100% done\nb\r\n\xff\n")
    assert runner.tail(log, 4) == ["a", "100% done", "b", "\ufffd"]
