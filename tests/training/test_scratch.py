"""Half-done work belongs to one process; what nobody needs is cleared away, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sightword.training.checkpoint import clear, take_folder


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


def test_work_that_is_done_leaves_nothing(tmp_path):
    with take_folder(tmp_path, "a") as own:
        assert names(tmp_path) == ["a", "a.lock"]
        own.rmdir()
    assert names(tmp_path) == []


def test_work_that_is_not_done_stays_and_is_taken_up(tmp_path):
    with pytest.raises(KeyboardInterrupt), take_folder(tmp_path, "a") as own:
        (own / "state").write_text("half")
        raise KeyboardInterrupt
    with take_folder(tmp_path, "a") as own:
        assert (own / "state").read_text() == "half"


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


def test_half_done_work_stays_however_old_it_is(tmp_path):
    aged(folder(tmp_path / "a"), 400)
    (tmp_path / "a.lock").touch()
    aged(tmp_path / "a.lock", 400)
    clear(tmp_path)
    assert names(tmp_path) == ["a", "a.lock"]


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
