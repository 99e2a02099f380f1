"""The commands of jobs, run as processes of this machine, which end with everything that they have started."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipeline.experiments import reaper


class Processes:
    """The processes of one sweep."""

    def __init__(self) -> None:
        self._pipe: IO[str] | None = None
        self._running: list[subprocess.Popen[bytes]] = []

    @contextlib.contextmanager
    def guarded(self, lock: int) -> Iterator[None]:
        """Hold a guard that ends the processes if this process is killed; at the end of the block, end them."""
        guard = subprocess.Popen(  # noqa: S603 - this Python, with a module of this package
            [sys.executable, "-I", reaper.__file__],
            stdin=subprocess.PIPE, text=True, start_new_session=True, pass_fds=[lock],
        )  # fmt: skip
        self._pipe = guard.stdin
        try:
            yield
        finally:
            running = {process.pid for process in self._running}
            reaper.end(running, reap=lambda: [process.poll() for process in self._running])
            while self._running:
                self._running[-1].wait()
                self.ended(self._running[-1])
            self._pipe = None
            guard.communicate()

    def start(self, command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> Process:
        """Start a command in a folder; its output is added to the file ``log``."""
        with log.open("ab") as stream:
            process = subprocess.Popen(  # noqa: S603 - a list of words from this package, without a shell
                command, cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                start_new_session=True,  # a group that can be ended as a whole, and that Ctrl-C does not reach
            )  # fmt: skip
        self._tell(f"+{process.pid}")
        self._running.append(process)
        return Process(process, self)

    def ended(self, process: subprocess.Popen[bytes]) -> None:
        """Forget a process whose group has ended."""
        self._running.remove(process)
        self._tell(f"-{process.pid}")

    def _tell(self, line: str) -> None:
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # somebody ended the guard; this process cleans up itself
                self._pipe.write(f"{line}\n")
                self._pipe.flush()


@dataclass(frozen=True)
class Process:
    """A command that runs as a process of this machine."""

    process: subprocess.Popen[bytes]
    among: Processes

    def poll(self) -> int | None:
        """Return the exit code of the command, once all that it has started has ended too; None before."""
        if self.process.poll() is None:
            return None
        reaper.end({self.process.pid}, grace=1.0)  # also processes that the command left behind
        self.among.ended(self.process)
        return self.process.returncode
