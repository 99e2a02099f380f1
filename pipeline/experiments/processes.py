"""The commands of jobs, run as processes of this machine, which end with everything that they have started."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from filelock import lock_descriptor

from pipeline.experiments import reaper

LOCK = ".lock"
"""The end of the name of a file in a sweep's folder that is locked while a command runs on another machine."""


@dataclass(frozen=True)
class Command:
    """A command of a job."""

    arguments: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    log: Path
    """The file to which is added what the command writes."""


@dataclass(frozen=True)
class End:
    """The end of a command."""

    code: int = 0
    """The exit code."""
    lost: str = ""
    """The reason why the place where the command ran is lost; the command is then to run again."""


class Running(Protocol):
    """A command that was started."""

    def poll(self) -> End | None:
        """Return the end of the command, once all that it has started has ended too; None before."""


class Engine(Protocol):
    """Runs commands."""

    def guarded(self, lock: int, /) -> AbstractContextManager[None]:
        """Start commands in this block only: none runs after the block, nor after the end of this process.

        The lock of an open file is held until the commands have ended, if they run on this machine.
        """

    def room(self) -> int:
        """Return the number of commands that may run at the same time, now."""

    def start(self, command: Command) -> Running:
        """Start a command."""


class Processes:
    """The engine of one machine.

    Args:
        apart: the guard is no child of this process, for a process that may be killed together with its children.
    """

    def __init__(self, *, apart: bool = False) -> None:
        self._guard = [sys.executable, "-I", reaper.__file__, *(["--apart"] if apart else [])]
        self._pipe: IO[str] | None = None
        self._running: list[subprocess.Popen[bytes]] = []

    @contextlib.contextmanager
    def guarded(self, lock: int) -> Iterator[None]:
        """Hold a guard that ends the processes if this process is killed; at the end of the block, end them."""
        guard = subprocess.Popen(  # noqa: S603 - this Python, with a module of this package
            self._guard, stdin=subprocess.PIPE, text=True, start_new_session=True, pass_fds=[lock]
        )
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

    def room(self) -> int:
        """Return a large number: slots alone limit the processes of this machine."""
        return sys.maxsize

    def start(self, command: Command) -> Process:
        """Start a command."""
        with command.log.open("ab") as stream:
            process = subprocess.Popen(  # noqa: S603 - a list of words from this package, without a shell
                command.arguments, cwd=command.folder, env=command.environment,
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
    engine: Processes

    def poll(self) -> End | None:
        """Return the end of the command, once all that it has started has ended too; None before."""
        if self.process.poll() is None:
            return None
        reaper.end({self.process.pid}, grace=1.0)  # also processes that the command left behind
        self.engine.ended(self.process)
        return End(self.process.returncode)


def is_free(lock: Path) -> bool:
    """Return whether no process holds the lock of a file, or there is no such file."""
    try:
        with lock.open("r+") as stream:
            return lock_descriptor(stream.fileno(), blocking=False)
    except FileNotFoundError:
        return True
