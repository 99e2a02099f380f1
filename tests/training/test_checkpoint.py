"""The folder of a half-done run: whole or as before, set aside when damaged, one for each set of inputs, and of one
process; what nobody needs is cleared away, and nothing else.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from filelock import FileLock
from small_tasks import run

from sightword.errors import FileFormatError
from sightword.io.saved import write_summed
from sightword.training.checkpoint import Checkpoint, Progress, clear, open_checkpoint, take_folder

KEY = {"inputs": "a", "device": "cpu", "parameters": {"rate": 1.0}}


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_damaged_checkpoint_is_set_aside(tmp_path, caplog) -> None:
    wanted, curves = run("entail")
    folder = tmp_path / "training"
    folder.mkdir()
    checkpoint = Checkpoint(folder)
    run("entail", checkpoint)

    def flipped(state) -> None:
        data = bytearray(state.read_bytes())
        data[-3] ^= 1
        state.write_bytes(data)

    def cut(state) -> None:
        state.write_bytes(state.read_bytes()[:-1])

    def other(state, **entries) -> None:
        """Write another progress with the sum that belongs to it."""
        with safetensors.safe_open(state, "pt") as file:
            about = json.loads(file.metadata()["progress"]) | entries
        write_summed(
            folder, "state", safetensors.torch.save(safetensors.torch.load_file(state), {"progress": json.dumps(about)})
        )

    damages = (
        *(flipped, cut, lambda state: write_summed(folder, "state", b"{")),
        *(partial(other, **entries) for entries in ({"schema": 99}, {"curves": 7}, {"best": math.nan})),
    )
    for damage in damages:
        run("entail", checkpoint)
        [state] = folder.glob("state-*")
        damage(state)
        caplog.clear()
        found, again = run("entail", checkpoint)
        assert "set aside" in caplog.text, damage
        assert (tmp_path / "training.damaged").is_dir()
        assert same(found, wanted)
        assert again == curves


def test_of_two_whole_states_the_later_is_taken(tmp_path) -> None:
    checkpoint = Checkpoint(tmp_path)
    for steps in (10, 9):
        checkpoint.save(Progress(steps), {"weights": torch.full((3,), float(steps))})
        [state] = tmp_path.glob("state-*")
        state.rename(tmp_path / f"{steps}.kept")
    for steps in (10, 9):
        kept = tmp_path / f"{steps}.kept"
        kept.rename(tmp_path / f"state-{hashlib.sha256(kept.read_bytes()).hexdigest()}.safetensors")
    found = checkpoint.load()
    assert found is not None
    assert found[0].steps == 10


def test_checkpoint_that_the_disk_does_not_give_stays(tmp_path, monkeypatch) -> None:
    Checkpoint(tmp_path).save(Progress(1), {"weights": torch.ones(3)})
    monkeypatch.setattr("hashlib.file_digest", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    with pytest.raises(FileFormatError, match="cannot be read"):
        Checkpoint(tmp_path).load()
    monkeypatch.undo()
    assert Checkpoint(tmp_path).load()


def test_folder_of_a_disk_without_locks_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(FileLock, "acquire", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    with pytest.raises(OSError, match=r"No locks available: '.*name\.lock'"), take_folder(tmp_path, "name"):
        pass


@pytest.mark.parametrize(
    "change", [{"inputs": "b"}, {"device": "cuda"}, {"parameters": {"rate": 2.0}}, torch, np, "threads", {}]
)
def test_other_inputs_versions_or_threads_start_afresh(tmp_path, monkeypatch, change) -> None:
    monkeypatch.setenv("SIGHTWORD_THREADS", "1")
    with open_checkpoint(tmp_path, "train", **KEY) as one:
        pass
    if change == "threads":
        monkeypatch.setenv("SIGHTWORD_THREADS", "2")
    elif change in (torch, np):
        monkeypatch.setattr(change, "__version__", "0.0.1")
    with open_checkpoint(tmp_path, "train", **KEY | (change if isinstance(change, dict) else {})) as two:
        pass
    assert (one.folder == two.folder) == (change == {})


# Folders


def aged(path: Path, days: float = 3.0) -> Path:
    then = time.time() - days * 86_400
    os.utime(path, (then, then))
    return path


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "state").write_text("half")
    return path


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_leftovers_go_when_they_are_old(tmp_path):
    leftovers = [tmp_path / "b.lock", tmp_path / "c.3xk_4q.lock"]
    for path in leftovers:
        path.touch()
    leftovers += [folder(tmp_path / name) for name in ("a.damaged", "c.3xk_4q", "d.9abcde")]
    clear(tmp_path)
    assert names(tmp_path) == sorted(path.name for path in leftovers)
    for path in leftovers:
        aged(path)
    clear(tmp_path)
    assert names(tmp_path) == []


def test_what_another_process_works_in_stays_however_old_it_is(tmp_path):
    script = (
        "import sys\nfrom pathlib import Path\nfrom sightword.training.checkpoint import take_folder\n"
        "with take_folder(Path(sys.argv[1]), 'a') as one, take_folder(Path(sys.argv[1]), 'a') as two:\n"
        "    print(one.name, two.name, flush=True)\n    sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout
    first, second = other.stdout.readline().split()
    assert first == "a"
    for path in tmp_path.iterdir():
        aged(path, 400)
    clear(tmp_path)
    assert names(tmp_path) == sorted([first, f"{first}.lock", second, f"{second}.lock"])
    with take_folder(tmp_path, "a") as third:
        assert third.name not in (first, second)
    other.kill()
    other.communicate()
    for path in tmp_path.iterdir():
        aged(path, 400)
    clear(tmp_path)
    assert names(tmp_path) == ["a", "a.lock"]  # the first is half done, the second was of use to that process only


def test_a_folder_is_taken_over_while_its_lock_is_removed(tmp_path):
    """The lock must be one on the file that is there, or two processes would each hold one of that name."""
    begun, taken = threading.Event(), []

    def finish() -> None:
        with take_folder(tmp_path, "a") as folder:
            begun.set()
            time.sleep(0.1)
            folder.rmdir()

    thread = threading.Thread(target=finish)
    thread.start()
    begun.wait()
    with take_folder(tmp_path, "a") as first:
        thread.join()
        with take_folder(tmp_path, "a") as second:
            taken = [first.name, second.name]
    assert taken[0] == "a"
    assert taken[1].startswith("a.")
