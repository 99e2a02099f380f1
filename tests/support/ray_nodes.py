"""A project of drawn pictures, and a shell that starts nodes of Ray on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fork_server
import numpy as np
import pyarrow as pa
from PIL import Image
from ruamel.yaml import YAML

from sightword.io.files import write_table

RAY = str(Path(sys.executable).with_name("ray"))
FEATURES = Path("data/features/features.h5")


class Project:
    """A folder of drawn pictures in which the stages resize and features run.

    Args:
        folder: where it goes.
        repository: the project.
        count: number of pictures.
        backbone: the network of the features.
        python: the Python that runs the stages without Ray; by default a copy of one (see ``fork_server``).
    """

    def __init__(
        self, folder: Path, repository: Path, count: int, *, backbone: str = "shufflenet_v2_x0_5", python: str = ""
    ) -> None:
        self.folder, self.repository = folder, repository
        self._python = python or fork_server.python()
        names = [f"{number:05d}.png" for number in range(count)]
        (folder / "pictures").mkdir(parents=True)
        for number, name in enumerate(names):
            blocks = np.random.default_rng(number).integers(0, 256, (4, 4 + number % 3, 3), np.uint8)
            picture = Image.fromarray(blocks).resize((16 * blocks.shape[1], 64), Image.Resampling.BICUBIC)
            picture.save(folder / "pictures" / name)
        table = {"image_id": names, "path": [f"pictures/{name}" for name in names]}
        write_table(folder / "data/corpus/images.parquet", pa.table(table))
        shutil.copy(repository / "dvc.yaml", folder)
        document = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
        document["resize"] |= {"side": 64, "shards": 4, "encoding": "raw", "max_rejects": 1}
        document["features"] |= {"backbone": backbone, "weights": "random", "weights_sha256": "", "crop": 64}
        with (folder / "params.yaml").open("w") as stream:
            YAML().dump(document, stream)

    def start(self, stage: str, *arguments: str, store: Path, **environment: str) -> subprocess.Popen[str]:
        """Start a stage in a session of its own; without other variables on the engine of one machine."""
        variables = {
            "PYTHONPATH": str(self.repository),
            "SIGHTWORD_DEVICE": "cpu",
            "SIGHTWORD_STORE": str(store),
            "SIGHTWORD_WORKERS": "2",
            "SIGHTWORD_THREADS": "1",
            **environment,
        }
        python = sys.executable if environment.get("SIGHTWORD_ENGINE") == "ray" else self._python
        command = [python, "-m", "stages", stage, *arguments]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "DVC_STAGE"))}
        return subprocess.Popen(
            command, cwd=self.folder, env=inherited | variables, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def run(self, stage: str, *arguments: str, store: Path, code: int = 0, **environment: str) -> str:
        """Run a stage, and return what it said on standard error; its processes end with it."""
        return finish(self.start(stage, *arguments, store=store, **environment), code)

    def taken(self) -> bytes:
        """Return the bytes of the stage features, and remove them."""
        data = (self.folder / FEATURES).read_bytes()
        (self.folder / FEATURES).unlink()
        return data


class Shell:
    """A reader's shell in a project: `dvc repro STAGE` runs the stage, and `ray start` takes little of this machine."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project, self.store = project, folder / "store"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        self._temporary = tempfile.mkdtemp(prefix="ray-")  # a short name: sockets lie below
        little = "--num-cpus=1 --min-worker-port=0 --max-worker-port=0 --object-store-memory=104857600"
        little += f" --disable-usage-stats --include-log-monitor=false --temp-dir={self._temporary}"
        programs = {
            "dvc": '[ "$1" = --cd ] && cd "$2" && shift 2\n'
            f'[ "$1" = repro ] && exec {shlex.quote(sys.executable)} -m stages "$2"',
            # a busy machine is too slow for Ray at times
            "ray": f'[ "$1" = start ] || exec {shlex.quote(RAY)} "$@"\n'
            f'case "$*" in *--head*) set -- "$@" --include-dashboard=false --no-monitor;; esac\n'
            f'for each in 1 2 3 4 5; do {shlex.quote(RAY)} "$@" {little} && exit; done; exit 1',
        }
        for name, text in programs.items():
            path = folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "DVC_STAGE"))}
        self.environment = kept | {
            "HOME": str(folder),
            "PATH": f"{folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(project.repository),
            "RAY_worker_niceness": "0",
            "SIGHTWORD_DEVICE": "cpu",
            "SIGHTWORD_STORE": str(self.store),
            "SIGHTWORD_THREADS": "1",
            "USER": "me",
        }
        self._begun: list[subprocess.Popen[bytes]] = []

    def start(self, text: str, **variables: str) -> subprocess.Popen[bytes]:
        """Type commands in a session of their own; names and ports are those of this machine."""
        text = re.sub(r"(?<!\$)\bhead:", "127.0.0.1:", text).replace("6379", self.port)
        with (self.store.parent / "said").open("ab") as said:
            begun = subprocess.Popen(
                ["bash", "-e", "-c", text], cwd=self.project.folder, env=self.environment | variables,
                stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        self._begun.append(begun)
        return begun

    def run(self, text: str, **variables: str) -> None:
        assert self.start(text, **variables).wait(timeout=400) == 0, self.said()

    def said(self) -> str:
        return (self.store.parent / "said").read_text()

    def close(self) -> None:
        for begun in self._begun:
            kill(begun)
        shutil.rmtree(self._temporary, ignore_errors=True)


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for a run; what it said."""
    _, said = process.communicate(timeout=600)
    assert process.returncode == code, said
    wait_for(lambda: not members(process.pid), 20)
    return said


def segments(store: Path) -> list[Path]:
    """The segments of a store."""
    return [path for path in (store / "features").glob("*/*.parquet") if not path.name.startswith(".")]


def members(session: int) -> dict[int, str]:
    """The processes of a session, with their titles, without those that ended."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, _, its_session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def workers(session: int) -> list[int]:
    """The workers of a node, or of a local cluster, that compute features."""
    return [number for number, title in members(session).items() if title.startswith("ray::Worker")]


def kill(node: subprocess.Popen[bytes]) -> None:
    """End all processes of a node at once, as a machine without power does."""
    for number in members(node.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    node.wait()


def wait_for(condition: Callable[[], object], seconds: float, process: subprocess.Popen[Any] | None = None) -> None:
    """Wait until a condition holds, while a process runs."""
    patience = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < patience, f"waited {seconds:.0f} s"
        assert process is None or process.poll() is None, "it ended before"
        time.sleep(0.02)
