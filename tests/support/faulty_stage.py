"""Runs a stage with a fault at one moment: ``python -m faulty_stage FAULT STAGE…``, where FAULT is an object of JSON.

Moments are numbers of operations on files, so that they are spread over a run whatever the machine does meanwhile.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faulty_disk import FaultyDisk

OFTEN = {
    "sightword.training.engine": {"SECONDS": 0.0},
    "sightword.storage.store": {"FIRST": 0.0},
    "sightword.images.resized": {"ALONE": 0.0},
    "sightword.features.compute": {"GROUPS_A_WORKER": 1},
    "sightword.text.building": {"CHUNK": 200},
}
"""What makes a short run keep its work as often as a long one, and start processes as soon."""


ROOM = ("mkdir", "open", "os.open", "write", "replace")
"""Operations that may need room on the disk."""


class Moment(FaultyDisk):
    """Calls a function at one operation on files below a folder, before it or when half of it is done; or the disk is
    full from then on.
    """

    def __init__(self, folder: Path, moment: int, act: Callable[[], object], *, half: bool, full: int) -> None:
        super().__init__(folder)
        self._moment, self._act, self._half, self._full = moment, act, half, full

    def strike(self, name: str, do: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        if self._full and self._moment <= self.count + 1 and name in ROOM:
            raise OSError(self._full, os.strerror(self._full))
        if self.count + 1 == self._moment and not self._full:
            if self._half:
                (half or do)()
            self._act()
        return super().strike(name, do, half)

    def _os_open(self, path: Any, flags: int, *args: Any, **options: Any) -> int:
        make = flags & os.O_CREAT
        return int((super()._os_open if make else self._real["open"])(path, flags, *args, **options))


def jump(seconds: float) -> None:
    """Let the clock jump."""
    real, real_ns = time.time, time.time_ns
    time.time, time.time_ns = lambda: real() + seconds, lambda: real_ns() + int(seconds * 1e9)


def main() -> None:
    """Run the stage; a report tells its process, and at the end its operations and its time."""
    fault = json.loads(sys.argv.pop(1))
    report, kind, at = Path(fault["report"]), fault.get("kind"), fault.get("at", 0)
    report.write_text(json.dumps({"process": os.getpid()}))
    for name, values in OFTEN.items():
        vars(importlib.import_module(name)).update(values)
    number = signal.SIGTERM if kind == "SIGTERM" else signal.SIGKILL
    disk = Moment(
        fault["folder"], at, lambda: jump(fault["seconds"]) if kind == "clock" else os.kill(os.getpid(), number),
        half=fault.get("half", False), full=fault.get("error", 0),
    )  # fmt: skip
    os.fsync = lambda _: None  # a killed process loses nothing that the system has, and disks are slow
    began = time.monotonic()
    if "after" in fault:
        timer = threading.Timer(fault["after"], os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()
    try:
        with disk:
            runpy.run_module("stages", run_name="__main__", alter_sys=True)
    finally:
        told = {"process": os.getpid(), "operations": disk.count, "seconds": time.monotonic() - began}
        report.write_text(json.dumps(told))


if __name__ == "__main__":
    main()
