"""The stage train in several processes: the same bytes each time, and one message whatever happens to one of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fork_server
import numpy as np
import psutil
import pytest
import torch
from training_project import finish, outputs, start, wait_for, write_project

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.vse.selection.ensemble import ensemble
from sightword.vse.training.snapshots import read_snapshots

pytestmark = pytest.mark.full
TORCHRUN = ["-m", "torch.distributed.run", "--standalone"]
SETTINGS = {"hidden": 48, "dropout_states": 0.0, "epochs": 4, "cycle": 1, "batch": 15}
KEPT = "The checkpoint is kept: the same command goes on from there."


@pytest.fixture
def project(repository, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_project(repository, **SETTINGS)
    return tmp_path


@pytest.fixture
def begin(project, repository, tmp_path_factory) -> Callable[..., subprocess.Popen[str]]:
    """Start the stage with a number of ranks, by itself or by torchrun, with one scratch folder for all.

    Processes are copies of one (see ``fork_server``) but where something happens to them.
    """
    scratch = tmp_path_factory.mktemp("scratch")

    def starting(ranks: int, *, torchrun: bool = False, copies: bool = False, **more: str) -> subprocess.Popen[str]:
        python = fork_server.python() if copies else sys.executable
        if torchrun:
            program = [python, *TORCHRUN, f"--nproc-per-node={ranks}"]
            return start(project, repository, scratch, program=program, GLOO_SOCKET_IFNAME="lo", **more)
        return start(project, repository, scratch, program=[python], SIGHTWORD_RANKS=str(ranks), **more)

    return starting


def ranks_of(process: subprocess.Popen[str]) -> dict[int, psutil.Process]:
    """The processes that a stage has started, by rank."""
    return {int(child.environ()["RANK"]): child for child in psutil.Process(process.pid).children(recursive=True)}


def refused(process: subprocess.Popen[str]) -> str:
    """Wait until the stage has ended with an error; the one line in which it says so."""
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "Traceback" not in said
    return said.splitlines()[-1]


def clear(project: Path) -> None:
    for folder in ("models", "metrics", "plots"):
        shutil.rmtree(project / folder, ignore_errors=True)


def test_ranks_killed_and_resumed_with_any_number_end_with_the_same_bytes(project, repository, begin) -> None:
    write_project(repository, **SETTINGS, average="ema", average_decay=0.9, precision="bf16")
    finish(begin(2, copies=True))
    wanted = outputs(project)
    assert sum(name.endswith(".safetensors") for name in wanted) == 4
    clear(project)
    process = begin(2)
    wait_for(1, process, project)
    ranks = ranks_of(process)
    ranks[1].kill()
    said = refused(process)
    assert said == f"train: process 2 of 2 was ended by SIGKILL (the memory may have run out). {KEPT}"
    assert not any(rank.is_running() for rank in ranks.values())
    said = finish(begin(2, copies=True))
    assert "goes on after batch" in said
    assert said.count("epoch 4:") == 1
    assert outputs(project) == wanted

    clear(project)
    process = begin(2)
    wait_for(1, process, project)
    ranks_of(process)[0].kill()
    assert "process 1 of 2 was ended by SIGKILL" in refused(process)
    assert "goes on after batch" in finish(begin(4, torchrun=True, copies=True))  # more than there may be cores
    assert outputs(project).keys() == wanted.keys()


@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_hangs_ends_all(project, begin, rank) -> None:
    process = begin(2, SIGHTWORD_THREADS="1")
    wait_for(1, process, project)
    ranks = ranks_of(process)
    ranks[rank].suspend()
    what = f"train: process {rank + 1} of 2 has given no sign of life for 30 s. The others were ended. {KEPT}"
    assert refused(process) == what
    assert not any(one.is_running() for one in ranks.values())
    assert "goes on after batch" in finish(begin(1, copies=True))


@pytest.mark.parametrize(
    "send",
    [lambda pid: os.killpg(pid, signal.SIGINT), lambda pid: os.kill(pid, signal.SIGTERM)],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_interruption_ends_all(project, begin, send) -> None:
    process = begin(2)
    wait_for(1, process, project)
    ranks = ranks_of(process)
    send(process.pid)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "train: interrupted"
    assert "Traceback" not in said
    assert not any(rank.is_running() for rank in ranks.values())


def test_without_the_launcher_all_end(project, begin) -> None:
    process = begin(2)
    wait_for(1, process, project)
    ranks = ranks_of(process)
    process.kill()
    process.communicate()
    gone, alive = psutil.wait_procs(ranks.values(), timeout=300)
    assert (len(gone), alive) == (2, [])


def test_an_error_of_a_rank_is_said_once(project, begin) -> None:
    with (project / "data/features/features.h5").open("r+b") as file:
        file.seek(2000)
        file.write(b"damaged")
    process = begin(2, copies=True)
    said = refused(process)
    assert said.startswith("train: data/features/features.h5: is damaged or was changed")


def test_torchrun_starts_the_ranks_too(project, begin, tmp_path_factory) -> None:
    finish(begin(2, copies=True))
    wanted = outputs(project)
    clear(project)
    said = finish(begin(2, torchrun=True, SIGHTWORD_SCRATCH=str(tmp_path_factory.mktemp("other"))))
    assert said.count("train: 4 epochs, 4 snapshots") == 1
    assert outputs(project) == wanted


def test_ranks_that_start_from_an_encoder_find_what_one_process_finds(project, repository, begin) -> None:
    settings = SETTINGS | {"batch": 16, "epochs": 2}

    def trained(ranks: int) -> SentenceEncoder:
        clear(project)
        finish(begin(ranks, copies=True))
        return ensemble(read_snapshots("models/snapshots"), [2], renormalise=False, device=torch.device("cpu"))

    write_project(repository, **settings)
    first = trained(1)
    first.save("data/raw/pretrained/seen")
    write_project(repository, **settings, start="seen")
    texts = ["red dog", "two kids play near a boat"]
    wanted = trained(1).encode(texts)
    np.testing.assert_allclose(trained(2).encode(texts), wanted, atol=1e-3)
    assert np.abs(first.encode(texts) - wanted).max() > 0.01
