"""Several processes of one training run, without a launcher."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import fork_server


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(repository: Path, count: int, *command: str, **more: str) -> list[subprocess.Popen[str]]:
    """Start processes with the variables that torchrun gives them; the first one has the store."""
    port = str(free_port())
    return [
        subprocess.Popen(
            [fork_server.python(), "-m", *command],
            env={
                **os.environ,
                "PYTHONPATH": f"{repository}{os.pathsep}{repository / 'tests/support'}",
                "GLOO_SOCKET_IFNAME": "lo",
                "SIGHTWORD_DEVICE": "cpu",
                **dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)),
                **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(count)),
                "GROUP_RANK": "0",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "TORCHELASTIC_RUN_ID": "test",
                **more,
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def finish(processes: list[subprocess.Popen[str]]) -> None:
    """Wait until all have ended well."""
    said = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(said), "\n".join(said)
