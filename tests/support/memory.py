"""The most memory that a process holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# A process counts what its parent held when it was started, so a small one stands between.
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


def peak(repository: Path, folder: Path, *command: str, **extra: str) -> float:
    """The most resident memory of a process of this Python, in megabytes; ``extra`` are environment variables."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(repository),
        "SIGHTWORD_WORKERS": "0",
        "SIGHTWORD_THREADS": "1",
        **extra,
    }
    environment.pop("DVC_STAGE", None)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1]) / 1e6
