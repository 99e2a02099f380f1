"""A cluster of Ray whose nodes are processes of this machine, and a project whose features it computes."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fork_server
import numpy as np
import pyarrow as pa
from PIL import Image
from ruamel.yaml import YAML

from sightword.io.files import write_table

RAY = str(Path(sys.executable).with_name("ray"))
_OBJECTS = str(100 << 20)
FEATURES = Path("data/features/features.h5")


class Nodes:
    """A head without workers, and nodes that come and go; all end with the block.

    The first nodes run once an object is made; a machine at work takes longer for them than a sweep waits.
    """

    def __init__(self, repository: Path, nodes: int = 0) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ray-"))  # a short name: sockets lie below
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self.variables = {
            "RAY_ADDRESS": self.address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
        }
        self._environment = {**os.environ, **self.variables, "PYTHONPATH": str(repository)}
        del self._environment["RAY_ADDRESS"]
        self.started: list[subprocess.Popen[bytes]] = []
        head = self._start(
            *("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false", "--no-monitor"),
            f"--temp-dir={self._folder}",
        )
        wait_for(self._answers, 200, head)
        for node in [self.add() for _ in range(nodes)]:
            wait_for(lambda node=node: any("raylet/raylet" in title for title in members(node.pid).values()), 200, node)

    def add(self, *before: str, cpus: int = 1, **environment: str) -> subprocess.Popen[bytes]:
        """Start a node; ``before`` stands before its command."""
        return self._start(f"--address={self.address}", f"--num-cpus={cpus}", before=before, **environment)

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.started:
            kill(node)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, *arguments: str, before: Sequence[str] = (), **environment: str) -> subprocess.Popen[bytes]:
        again = [
            "sh",
            "-c",
            'for each in 1 2 3 4 5; do "$@"; done',
            "sh",
        ]  # a busy machine is too slow for Ray at times
        command = [*before, *again, RAY, "start", *arguments, "--block", "--disable-usage-stats"]
        ports = ["--min-worker-port=0", "--max-worker-port=0", f"--object-store-memory={_OBJECTS}"]
        node = subprocess.Popen(
            [*command, *ports, "--include-log-monitor=false"],
            env=self._environment | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self.started.append(node)
        return node

    def _answers(self) -> bool:
        host, _, port = self.address.rpartition(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return True
        return False


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
