"""A stage in several processes: how many there may be, their threads, and what is said when one of them fails."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import fork_server
import pytest
import torch
from torch.distributed.elastic.multiprocessing.errors import ErrorHandler, ProcessFailure

from pipeline.ranks import check, explain
from sightword import machine
from sightword.compute import devices
from sightword.errors import FileFormatError, RanksError, SetupError, SightwordError, TrainingError

UNDER_TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "x", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
}  # fmt: skip


@pytest.fixture
def here(monkeypatch) -> machine.Machine:
    """A machine of four cores."""
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setattr("pipeline.ranks.cores", lambda: 4)
    monkeypatch.delenv("SIGHTWORD_THREADS", raising=False)
    monkeypatch.delenv("SIGHTWORD_RANKS", raising=False)
    return machine.current()


def test_ranks_share_the_cores_of_their_machine(here, monkeypatch) -> None:
    assert (here.ranks, here.threads, machine.place()) == (1, 4, machine.Place())
    monkeypatch.setenv("SIGHTWORD_RANKS", "2")
    assert (machine.current().ranks, machine.current().threads) == (2, 4)  # other stages are one process
    for name, value in UNDER_TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert machine.place() == machine.Place(rank=3, ranks=4, local_rank=1, local_ranks=2, node=1)
    assert machine.current().threads == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert machine.current().threads == 1
    monkeypatch.setenv("SIGHTWORD_THREADS", "3")
    assert machine.current().threads == 3


def test_more_ranks_than_cores_or_gpus_are_refused(here, monkeypatch) -> None:
    check(replace(here, device="cpu", ranks=4))
    with pytest.raises(SetupError, match=r"SIGHTWORD_RANKS=5: this machine has 4 cores .*; expected at most 4"):
        check(replace(here, device="cpu", ranks=5))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(SetupError, match="SIGHTWORD_RANKS=2: this machine has 1 GPU; expected at most 1"):
        check(replace(here, device="auto", ranks=2))
    for name, value in UNDER_TORCHRUN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(SetupError, match="several processes need a GPU each"):
        devices.use(replace(here, device="cuda:1"))


@pytest.fixture
def failure(tmp_path, monkeypatch):
    """Make the failure of a rank, with the error that it told, if it told one."""

    def made(rank: int, code: int, error: Exception | None = None) -> ProcessFailure:
        file = tmp_path / f"{rank}.json"
        file.unlink(missing_ok=True)
        if error is not None:
            monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
            ErrorHandler().record_exception(error)
        return ProcessFailure(local_rank=rank, pid=100 + rank, exitcode=code, error_file=str(file))

    return made


def test_the_cause_is_said_and_not_its_consequences(failure, tmp_path, capsys) -> None:
    lost = RanksError("the connection broke")
    damaged = FileFormatError("is damaged", where="captions.parquet", expected="a table", todo="Run it again.")

    def said(*failures: ProcessFailure) -> BaseException:
        return explain({one.local_rank: one for one in failures}, 3, tmp_path)

    found = said(failure(0, 1, lost), failure(1, -9), failure(2, -15))
    assert isinstance(found, TrainingError)
    assert str(found).startswith("process 2 of 3 was ended by SIGKILL (the memory may have run out). The checkpoint")
    assert "ended by SIGSEGV. The" in str(said(failure(0, -15), failure(1, 1, lost), failure(2, -11)))
    found = said(failure(0, 1, lost), failure(1, 1, damaged), failure(2, -9))  # the last one hung
    assert (type(found), str(found)) == (SightwordError, str(damaged))
    assert str(said(failure(0, 1, lost), failure(1, -15))) == str(lost)
    assert isinstance(said(failure(0, -15), failure(1, 130)), KeyboardInterrupt)

    log = tmp_path / "attempt_0/2"
    log.mkdir(parents=True)
    (log / "stderr.log").write_text("Traceback (most recent call last):\nZeroDivisionError\n")
    found = explain({2: failure(2, 1), 0: failure(0, -15)}, 3, tmp_path.parent)
    assert isinstance(found, SystemExit)
    assert found.code == 1


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ("0", "SIGHTWORD_RANKS=0: not a usable number; expected a whole number of at least 1"),
        ("two", "SIGHTWORD_RANKS=two: not a usable number; expected a whole number of at least 1"),
        ("4096", "SIGHTWORD_RANKS=4096: this machine has"),
    ],
)
def test_a_wrong_number_is_told_before_any_work(repository, tmp_path, monkeypatch, ranks, expected) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").touch()
    for name, value in {"SIGHTWORD_RANKS": ranks, "PYTHONPATH": repository, "SIGHTWORD_DEVICE": "cpu"}.items():
        monkeypatch.setenv(name, str(value))
    command = [fork_server.python(), "-m", "stages", "train"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"train: {expected}")
    assert done.stderr.count("\n") == 1


def test_a_stage_that_is_one_process_is_refused_under_torchrun(repository, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {**UNDER_TORCHRUN, "RANK": "0", "LOCAL_RANK": "0", "PYTHONPATH": str(repository)}.items():
        monkeypatch.setenv(name, value)
    command = [fork_server.python(), "-m", "stages", "captions"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "4 processes cannot share this stage. Only `train` runs in torchrun." in done.stderr
