"""Whatever operation of the disk fails, or is a process's last, and on a full disk: the store keeps what it told of.

After SQLite's own tests: a run is repeated, and each time the next operation goes wrong, until a run has none left.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faulty_disk
import numpy as np
import pyarrow as pa
import pytest
from faulty_disk import FaultyDisk
from kept_features import KIND

from sightword.errors import StoreError
from sightword.storage import store as module
from sightword.storage.store import IDENTITY, Store

DIMENSION = 3000
"""Enough for a segment that does not fit into a file's buffer."""
FOLDERS, PROBES, NAMED, SEGMENTS = 2 * 3, 2 * 5, 10, 4 * 10
POINTS = FOLDERS + PROBES + NAMED + SEGMENTS
"""Operations a run takes: it makes folders, sees twice whether it may write, and writes a name and segments."""


OPERATIONS = {"mkdir", "os.open", "os.close", "os.fsync", "open", "write", "close", "chmod", "replace", "unlink"}
BEFORE = 9
"""The number of a feature that was there before."""


def feature(number: int) -> tuple[bytes, np.ndarray]:
    value = np.random.default_rng(number).standard_normal(DIMENSION).astype(np.float32)
    return KIND.key(f"{number:064x}"), value


def run(folder: Path, numbers=((0, 1), (2, 3)), patience: float = 0.0) -> list[int]:
    """Two writers, one after the other, each with two segments; the features that were told to be written."""
    told: list[int] = []
    module.FIRST = module.LAST = patience
    for some in numbers:
        with Store(folder).writer(KIND) as writer:
            for number in some:
                writer.put(*feature(number))
        told += some
    return told


def die(at: int, folder: Path, told: Path, options: dict[str, Any]) -> int:
    """Run in a process that dies at an operation; its exit code. What is told goes to a file elsewhere."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        with FaultyDisk(folder, at=at, mode="die", **options):
            for some in ((0, 1), (2, 3)):
                run(folder, (some,))
                with open(told, "a") as file:
                    file.write("".join(f"{number}\n" for number in some))
        code = 0
    finally:
        os._exit(code)


def die_everywhere(folder: Path, options: dict[str, Any]) -> None:
    """For a process of its own: forking is safe only where no threads are."""
    pa.array([b""])  # what this imports, each process would import anew
    for at in range(1, 10 * POINTS):
        code = die(at, lab(folder / str(at)) / "store", folder / f"{at}.told", options)
        if code == 0:
            return
        if code != faulty_disk.DEAD:
            sys.exit(f"operation {at} ended with {code}")


@pytest.fixture(autouse=True)
def shared(tmp_path) -> Iterator[None]:
    """In a folder that several users share, with a mask that shuts the others out: that takes the most steps."""
    mask = os.umask(0o077)
    yield
    os.umask(mask)


def lab(folder: Path) -> Path:
    folder.mkdir(parents=True)
    folder.chmod(0o2770)
    return folder


@pytest.fixture(autouse=True)
def patience(monkeypatch) -> None:
    """:func:`run` sets these for good; here they are taken back."""
    monkeypatch.setattr(module, "FIRST", module.FIRST)
    monkeypatch.setattr(module, "LAST", module.LAST)


def check(folder: Path, told: list[int], caplog, *, clean: bool) -> None:
    """What a reader and the next writer find."""
    names = [path.name for path in folder.rglob("*") if path.is_file()]
    assert not [name for name in names if name.startswith(".")] or not clean
    visible = {name for name in names if not name.startswith(".")}
    assert all(name == IDENTITY or module.SEGMENT_NAME.fullmatch(name) for name in visible)
    if IDENTITY in visible:
        assert (folder / "features" / KIND.name / IDENTITY).read_text() == KIND.as_json() + "\n"
    check_features(folder, told)
    run(folder, ((0, 1, 2, 3, 4),), patience=100.0)
    check_features(folder, [0, 1, 2, 3, 4, *({BEFORE} & set(told))])
    assert caplog.messages == []  # no damage anywhere


def check_features(folder: Path, told: list[int]) -> None:
    true = {key: value.tobytes() for key, value in map(feature, (0, 1, 2, 3, 4, BEFORE))}
    found = {
        key: value.tobytes()
        for keys, values in Store(folder).read(KIND, DIMENSION, list(true))
        for key, value in zip(keys, values, strict=True)
    }
    assert found.items() <= true.items()
    assert {feature(number)[0] for number in told} <= found.keys()


def test_what_a_run_asks_of_the_disk(tmp_path) -> None:
    """The faults below strike what they are meant to strike."""
    with FaultyDisk(tmp_path / "lab/store") as disk:
        assert run(lab(tmp_path / "lab") / "store") == [0, 1, 2, 3]
    assert disk.struck is None
    assert disk.count >= POINTS
    assert set(disk.kinds) >= OPERATIONS
    assert disk.kinds["replace"] == 2 + 1 + 4  # folders, identity, segments
    assert disk.kinds["os.fsync"] == 2 * (1 + 4)  # each file, and each time its folder
    check_features(tmp_path / "lab/store", [0, 1, 2, 3])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"error": errno.ENOSPC, "new": True},
        {"error": errno.EIO, "after": True},
        {"error": errno.ENOSPC, "lasting": True, "after": True},
    ],
    ids=["refused in a new store", "done but reported as failed", "full from then on"],
)
def test_any_operation_may_fail(tmp_path, caplog, options) -> None:
    options = dict(options)
    new = options.pop("new", False)
    struck = []
    for at in range(1, 10 * POINTS):
        folder = lab(tmp_path / str(at)) / "store"
        told = [] if new else run(folder, ((BEFORE,),))
        with FaultyDisk(folder, at=at, **options) as disk:
            try:
                told += run(folder)
                problem = None
            except StoreError as error:
                problem = str(error)
        if disk.struck is None:
            break
        if problem is None:  # when a kind was used is no part of it
            assert disk.struck == "utime"
        else:
            assert problem.startswith(f"{folder}: the store cannot be written ({os.strerror(options['error'])})")
            assert "SIGHTWORD_STORE" in problem
        struck.append(disk.struck)
        caplog.clear()  # of an error that was not the first
        check(folder, told, caplog, clean=disk.struck != "unlink")
    else:
        pytest.fail("the runs never came to an end")
    assert len(struck) >= (POINTS if new else PROBES + SEGMENTS)
    assert set(struck) >= (OPERATIONS if new else OPERATIONS - {"mkdir"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"after": True}, pytest.param({"power": "torn"}, marks=pytest.mark.full)],
    ids=["after it or half-way", "power goes and tears files"],
)
def test_a_process_may_die_at_any_operation(tmp_path, caplog, options, repository) -> None:
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path), json.dumps(options)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(repository), str(repository / "tests/support")])},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    stores = {path.name: path / "store" for path in sorted(tmp_path.iterdir()) if path.is_dir()}
    leftovers = 0
    for at, folder in stores.items():
        told = tmp_path / f"{at}.told"
        leftovers += bool([path for path in folder.rglob(".*") if path.is_file()])
        check(folder, [int(line) for line in told.read_text().split()] if told.exists() else [], caplog, clean=False)
    assert len(stores) > POINTS
    assert leftovers > 30 or options.get("power") == "lost"  # so they were killed in the midst of it


def test_short_writes_are_gone_on_with(tmp_path, caplog) -> None:
    folder = lab(tmp_path / "lab") / "store"
    with FaultyDisk(folder, short=True) as disk:
        told = run(folder)
    assert disk.kinds["write"] > 30
    check(folder, told, caplog, clean=True)


if __name__ == "__main__":
    die_everywhere(Path(sys.argv[1]), json.loads(sys.argv[2]))
