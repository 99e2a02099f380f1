"""Stages by faults: killed, interrupted, on a full disk, with a clock that jumps, two at once, without their caches.

After each fault the next run ends with the bytes of a run that nothing disturbed, or the stage stops with one message.
`make test-full` tries a sample; `SIGHTWORD_TEST_FAULTS=all` tries all, another text draws another sample.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fork_server
import pytest
from checkout import change
from made_once import made_once
from odd_files import apart, fill
from ray_nodes import members, wait_for

from pipeline import new_project
from pipeline.lineage.facts import OUTS, listed
from pipeline.pipelines import by_entry

pytestmark = pytest.mark.full
DRAW = os.environ.get("SIGHTWORD_TEST_FAULTS") or "1"
BEFORE = (
    *("corpus", "resize", "features", "captions", "hypernyms/dvc.yaml:taxonomy", "entailment/dvc.yaml:pairs"),
    *("grounded/dvc.yaml:text", "grounded/dvc.yaml:skipthought"),
)
"""The stages that make the inputs of all."""
TRAININGS = (
    *("train", "hypernyms/dvc.yaml:train", "entailment/dvc.yaml:train"),
    *("grounded/dvc.yaml:train@cg-pg-0", "grounded/dvc.yaml:skipthought"),
)
STAGES = (*TRAININGS, "features", "resize", "grounded/dvc.yaml:text")
CURVES = "plots/train"
"""The output that grows by the epoch."""
KEPT = "resized.tmp"
DAY = 86_400.0
DISK = 64 << 20
PROMISES = ("Nothing half-written is left.", "Stored features stay", "set SIGHTWORD_WORKERS=0")
MOUNTED = 'mount -t tmpfs -o size={size} tmpfs "$1" && mount -t tmpfs -o size=64k tmpfs /dev/shm && shift && exec "$@"'


def write_project(folder: Path) -> None:
    """Write a user's project with inputs of all stages, each of which takes less than a second."""
    project = new_project.create(folder / "project")[0]
    for name in ("hypernyms", "entailment", "grounded"):
        new_project.add(project, name)
        (project / name / ".dvcignore").unlink(missing_ok=True)
    change(project / "data/raw/sample/scenes.yaml", pictures__train=24, pictures__dev=8, pictures__test=4)
    small = {"embedding": 6, "hidden": 8}
    change(
        project / "params.yaml", resize__side=64, resize__shards=12, features__crops="one", features__crop=64,
        train__epochs=3, train__cycle=1, train__batch=24,
        train__attention=4, **{f"train__{name}": value for name, value in small.items()},
    )  # fmt: skip
    change(project / "hypernyms/params.yaml", taxonomy__dev=50, taxonomy__test=50, train__batch=9000, train__epochs=2)
    for part, count in (("train", 120), ("dev", 40), ("test", 40)):
        source = {"format": "sample", "path": "data/raw/sample", "part": part, "count": count}
        change(project / "entailment/params.yaml", **{f"pairs__{part}": [source]})
    change(
        project / "entailment/params.yaml", train__epochs=3, train__batch=20, train__validate_every=4,
        **{f"train__{name}": value for name, value in small.items()},
    )  # fmt: skip
    change(
        project / "grounded/params.yaml", text__stories=60, skipthought__batch=16, skipthought__steps=12,
        skipthought__validate_every=5, skipthought__validation=20, train__common__batch=6, train__common__steps=15,
        train__common__hidden=8, train__common__width=6, train__common__validate_every=5,
        **{f"skipthought__{name}": value for name, value in small.items()},
    )  # fmt: skip
    world = World(folder, folder)
    for stage in BEFORE:
        code, said = world.ended(world.start(stage))
        assert code == 0, said
    shutil.rmtree(folder / "store")


def contents(path: Path) -> dict[str, bytes]:
    """Return the files of an output by their names in it."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return {str(file.relative_to(path)): file.read_bytes() for file in files if file.is_file()}


def leftovers(folder: Path) -> set[Path]:
    """Return the temporary files, but for the shards from which resize goes on."""
    return {path for path in folder.rglob("*.tmp") if not {".git", KEPT}.intersection(path.parts)}


@dataclass
class Undisturbed:
    """A run that nothing disturbed."""

    outs: dict[str, dict[str, bytes]]
    operations: int = 0
    """Operations on files, where work is kept often."""
    seconds: float = 0.0


@dataclass
class World:
    """A project with its store and half-done work.

    Args:
        folder: where its processes see it.
        seen: where the test sees it: elsewhere, if the folder is a disk that the processes alone have.
        programs: the folder of Python and DVC.
    """

    folder: Path
    seen: Path
    programs: Path = field(default_factory=fork_server.programs)
    runs: dict[str, Undisturbed] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        return self.seen / "project"

    def start(self, stage: str, fault: dict[str, Any] | None = None, *, dvc: bool = False, **more: str) -> Any:
        """Start a stage, with a fault or under DVC."""
        support = Path(__file__).parents[1] / "support"
        variables = {
            **{name: value for name, value in os.environ.items() if name != "DVC_STAGE"},
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "PYTHONPATH": f"{fork_server.REPOSITORY}:{support}",
            "DVC_NO_ANALYTICS": "1",
            "DVC_SITE_CACHE_DIR": str(self.folder / "dvc"),
            "SIGHTWORD_DEVICE": "cpu",
            "SIGHTWORD_THREADS": "1",
            "SIGHTWORD_WORKERS": "0",
            **{f"SIGHTWORD_{name.upper()}": str(self.folder / name) for name in ("store", "scratch", "cache")},
        }
        words = by_entry(self.project)[stage]["cmd"].split()
        if fault is not None:
            words[2:3] = ["faulty_stage", json.dumps({"folder": str(self.folder), "report": self.report, **fault})]
        return subprocess.Popen(
            ["dvc", "repro", "-q", "-s", stage] if dvc else words, cwd=self.folder / "project", env=variables | more,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    @property
    def report(self) -> str:
        return f"{self.folder}.json"

    @staticmethod
    def ended(process: Any) -> tuple[int, str]:
        """Return the exit code of a process and what it said, without a traceback but that of a killed one's child."""
        said, _ = process.communicate(timeout=300)
        assert "Traceback" not in said or process.returncode == -signal.SIGKILL, said
        return process.returncode, said

    def outs(self, stage: str) -> dict[str, dict[str, bytes]]:
        return {path: contents(self.project / path) for path, _ in listed(by_entry(self.project)[stage], OUTS)}

    def undisturbed(self, stage: str) -> Undisturbed:
        """Return a run that nothing disturbed, with the bytes of one that keeps its work often."""
        if stage not in self.runs:
            kept = []
            for fault in (None, {}):
                self.reset(stage)
                code, said = self.ended(self.start(stage, fault))
                assert code == 0, said
                kept.append(self.outs(stage))
            assert kept[0] == kept[1]
            told = json.loads(Path(self.report).read_text())
            self.runs[stage] = Undisturbed(kept[0], told["operations"], told["seconds"])
            assert all(kept[0].values())
        return self.runs[stage]

    def reset(self, stage: str, *, earlier: bool = False) -> None:
        """Remove outputs and kept work, as a first run finds them; or leave earlier outputs of other bytes."""
        for path in [*self.outs(stage), "../store", "../scratch", "../cache", ".dvc/cache", "runs", f"data/{KEPT}"]:
            shutil.rmtree(self.project / path, ignore_errors=True)
            (self.project / path).unlink(missing_ok=True)
        for path in leftovers(self.seen):
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
        for lock in self.project.rglob("dvc.lock"):
            lock.unlink()
        for path, files in self.undisturbed(stage).outs.items() if earlier else ():
            file = self.project / path / ("" if "." in files else "earlier")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"earlier")

    def check_left(self, stage: str) -> None:
        """Check that each output is absent, an earlier one, or whole; of the curves each file is."""
        wanted = self.undisturbed(stage).outs
        for path, files in self.outs(stage).items():
            if path == CURVES:
                whole = {name: data.splitlines() for name, data in wanted[path].items()} | {"earlier": [b"earlier"]}
                lines = {name: data.splitlines() for name, data in files.items() if not name.endswith(".tmp")}
                assert all(some == whole[name][: len(some)] for name, some in lines.items())
            else:
                assert files in ({}, {".": b"earlier"}, {"earlier": b"earlier"}, wanted[path]), path

    def check_done(self, stage: str, code: int, said: str) -> None:
        """Check a run that ended well: the bytes of an undisturbed one, and no half-done work."""
        assert code == 0, said
        assert self.outs(stage) == self.undisturbed(stage).outs
        assert [path for path in self.seen.glob("scratch/*/*") if path.is_dir()] == []
        assert not (self.project / "data" / KEPT).exists()

    def half_done(self) -> list[Path]:
        """Return the states of trainings and the segments of features that are kept."""
        return [*self.seen.glob("scratch/*/*/state-*"), *self.seen.glob("store/features/*/*.parquet")]

    def go_on(self, stage: str) -> None:
        """Run once more: with the work that is kept, to the bytes of a run that nothing disturbed."""
        kept, left = self.half_done(), leftovers(self.seen)
        code, said = self.ended(self.start(stage))
        self.check_done(stage, code, said)
        assert leftovers(self.seen) <= left
        if kept:
            assert "goes on after batch" in said or "from store" in said, said


# The faults


def kill(world: World, stage: str, draw: random.Random, share: float, **more: str) -> None:
    """Run until SIGKILL, at an operation or at a time."""
    run = world.undisturbed(stage)
    world.reset(stage, earlier=draw.random() < 0.5)
    fault = {"kind": "SIGKILL", "at": 1 + int(share * run.operations), "half": draw.random() < 0.5}
    if draw.random() < 0.3:
        fault = {"kind": "SIGKILL", "after": share * run.seconds}
    code, said = world.ended(world.start(stage, fault, **more))
    assert code == -signal.SIGKILL or "after" in fault, said
    session = json.loads(Path(world.report).read_text())["process"]
    wait_for(lambda: not members(session), 20)
    world.check_left(stage)


def killed(world: World, stage: str, draw: random.Random, share: float) -> str:
    kill(world, stage, draw, share, SIGHTWORD_WORKERS=draw.choice("02"))
    world.go_on(stage)
    return "same bytes"


def interrupted(world: World, stage: str, draw: random.Random, share: float) -> str:
    world.reset(stage, earlier=draw.random() < 0.5)
    fault = {"kind": "SIGTERM", "at": 1 + int(share * world.undisturbed(stage).operations)}
    code, said = world.ended(world.start(stage, fault, SIGHTWORD_WORKERS=draw.choice("02")))
    assert leftovers(world.seen) == set()
    world.check_left(stage)
    if code:
        assert (code, said.splitlines()[-1]) == (130, f"{stage.partition('@')[0]}: interrupted"), said
    world.go_on(stage)
    return "one message" if code else "same bytes"


def refused(world: World, stage: str, code: int, said: str, reason: str) -> str:
    """Check the run on a full disk, which may have had enough room."""
    assert leftovers(world.seen) == set()
    world.check_left(stage)
    if code == 0:
        world.check_done(stage, code, said)
        return "same bytes"
    assert code == 1, said
    assert reason in said, said
    assert said.splitlines()[-1].startswith(f"{stage.partition('@')[0]}: "), said
    assert any(promise in said for promise in PROMISES), said
    return "one message"


def full_disk(world: World, stage: str, draw: random.Random, share: float) -> str:
    """From one operation on nothing can be written."""
    world.reset(stage, earlier=draw.random() < 0.5)
    error = draw.choice([errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
    fault = {"at": 1 + int(share * world.undisturbed(stage).operations), "error": error}
    ended = refused(world, stage, *world.ended(world.start(stage, fault)), os.strerror(error))
    world.go_on(stage)
    return ended


def small_disk(world: World, stage: str, draw: random.Random, share: float) -> str:
    """A file system of the kernel's has too little room."""
    need = sum(len(data) for files in world.undisturbed(stage).outs.values() for data in files.values())
    return filled(world, stage, world.seen, int(share * need), os.strerror(errno.ENOSPC))


def full_shm(world: World, stage: str, draw: random.Random, share: float) -> str:
    shared = Path(str(world.seen).removesuffix(str(world.folder))) / "dev/shm"
    return filled(world, stage, shared, 0, "/dev/shm", SIGHTWORD_WORKERS="2")


def filled(world: World, stage: str, disk: Path, free: int, reason: str, **more: str) -> str:
    world.reset(stage)
    filler = fill(disk, free)
    ended = refused(world, stage, *world.ended(world.start(stage, {}, **more)), reason)
    filler.unlink()
    world.go_on(stage)
    return ended


def clock(world: World, stage: str, draw: random.Random, share: float) -> str:
    """The clock jumps while the stage goes on, with files of yesterday or tomorrow."""
    kill(world, stage, draw, draw.random())
    seconds = DAY if share < 0.5 else -DAY
    for path in world.seen.rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - seconds))
    fault = {"kind": "clock", "at": 1 + int(draw.random() * world.undisturbed(stage).operations / 2)}
    world.check_done(stage, *world.ended(world.start(stage, fault | {"seconds": seconds})))
    return "same bytes"


def emptied(world: World, stage: str, draw: random.Random, share: float) -> str:
    """All or half of the kept work is gone when the stage goes on."""
    kill(world, stage, draw, draw.uniform(0.5, 0.95))
    for path in [path for name in ("store", "scratch") for path in (world.seen / name).rglob("*") if path.is_file()]:
        if share < 0.4 or draw.random() < 0.5:
            path.unlink()
    world.check_done(stage, *world.ended(world.start(stage)))
    return "same bytes"


def two_stages(world: World, stage: str, draw: random.Random, share: float) -> str:
    run = world.undisturbed(stage)
    world.reset(stage, earlier=draw.random() < 0.5)
    pair = [world.start(stage, {})]
    time.sleep(share * run.seconds)
    pair.append(world.start(stage, {"report": f"{world.report}.2"}))
    codes = [world.ended(process)[0] for process in pair]
    world.check_done(stage, 0, "")
    assert leftovers(world.seen) == set()
    world.go_on(stage)
    return "one message" if any(codes) else "same bytes"


def two_dvc(world: World, stage: str, draw: random.Random, share: float) -> str:
    world.reset(stage)
    ended = [world.ended(process) for process in [world.start(stage, dvc=True) for _ in range(2)]]
    assert any(code == 0 for code, _ in ended), ended
    world.check_done(stage, 0, "")
    world.check_done(stage, *world.ended(world.start(stage, dvc=True)))
    return "one message" if any(code for code, _ in ended) else "same bytes"


def killed_dvc(world: World, stage: str, draw: random.Random, share: float) -> str:
    """DVC and its stage are killed; its cache may be gone when DVC runs once more."""
    world.reset(stage)
    process = world.start(stage, dvc=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5 + share * (2 + world.undisturbed(stage).seconds))
    process.kill()
    process.communicate()
    if share < 0.5:
        shutil.rmtree(world.project / ".dvc/cache", ignore_errors=True)
    world.check_done(stage, *world.ended(world.start(stage, dvc=True)))
    return "same bytes"


Fault = Callable[[World, str, random.Random, float], str]
FAULTS: dict[str, tuple[Fault, int, int]] = {
    "kill": (killed, 10, 8),
    "SIGTERM": (interrupted, 2, 2),
    "full disk": (full_disk, 4, 3),
    "small disk": (small_disk, 3, 2),
    "full shm": (full_shm, 1, 1),
    "clock": (clock, 2, 2),
    "emptied": (emptied, 3, 2),
    "two stages": (two_stages, 3, 2),
    "two dvc repro": (two_dvc, 1, 1),
    "killed dvc repro": (killed_dvc, 2, 1),
}
"""The tries of each fault for a stage, and in the sample for all stages together."""
MOUNTS = (small_disk, full_shm)


def cells() -> list[Any]:
    """Return the tries, each with a share of the run; in a sample the kills of all stages."""
    found = []
    for name, (fault, tries, sample) in FAULTS.items():
        every = [(stage, number) for stage in STAGES for number in range(tries)]
        if DRAW != "all":
            draw = random.Random(f"{DRAW} {name}")
            stages = draw.sample(STAGES, sample)
            every = [(stage, draw.randrange(tries)) for stage in stages]
        marks = [pytest.mark.system] if fault in MOUNTS else []
        found += [
            pytest.param(stage, fault, number, tries, id=f"{stage}-{name}-{number}", marks=marks)
            for stage, number in every
        ]
    return sorted(found, key=lambda cell: STAGES.index(cell.values[0]))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return made_once(tmp_path_factory, "faults", write_project)


@pytest.fixture(scope="module")
def world(made, tmp_path_factory) -> World:
    folder = tmp_path_factory.mktemp("faults") / "world"
    shutil.copytree(made, folder, symlinks=True)
    return World(folder, folder)


@pytest.fixture(scope="module")
def disk(made, world, tmp_path_factory) -> World:
    """The world on a disk of its own, whose /dev/shm is small too."""
    folder = tmp_path_factory.mktemp("faults") / "disk"
    (folder / "project").mkdir(parents=True)
    before = (*apart(), "sh", "-c", MOUNTED.format(size=DISK), "sh", str(folder))
    programs = fork_server.programs(before)
    seen = Path(f"/proc/{fork_server.pid(before)}/root{folder}")
    shutil.copytree(made, seen, symlinks=True, dirs_exist_ok=True)
    return replace(world, folder=folder, seen=seen, programs=programs)


@pytest.mark.parametrize(("stage", "fault", "number", "tries"), cells())
def test_stage_after_a_fault_ends_with_the_same_bytes(request, record_property, stage, fault, number, tries):
    draw = random.Random(f"{DRAW} {stage} {fault.__name__} {number}")
    world = request.getfixturevalue("disk" if fault in MOUNTS else "world")
    request.getfixturevalue("world").undisturbed(stage)
    record_property("ended", fault(world, stage, draw, (number + draw.random()) / tries))


def test_checkpoint_stays_until_the_facts_are_written(world):
    """DVC deletes the outputs of a run that did not end well: then the checkpoint is all that is left."""
    stage = "hypernyms/dvc.yaml:train"
    world.reset(stage)
    facts = world.project / "runs"
    facts.touch()  # so that no file can be written below
    for before in (False, True):
        code, said = world.ended(world.start(stage, DVC_STAGE=stage))
        assert (code, "goes on after batch" in said) == (0, before), said
        assert "the facts of this run are not kept" in said
        assert world.outs(stage) == world.undisturbed(stage).outs
        assert len(world.half_done()) == 1
    facts.unlink()
    code, said = world.ended(world.start(stage, DVC_STAGE=stage))
    world.check_done(stage, code, said)
    assert "goes on after batch" in said
