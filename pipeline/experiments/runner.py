"""Running the jobs of a sweep, one in each slot, until all are done or have failed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pipeline.experiments import reaper
from pipeline.experiments.baseline import Ground
from pipeline.experiments.clones import Copy, remove
from pipeline.experiments.jobs import Job
from pipeline.experiments.plan import Run, written
from pipeline.experiments.slots import Slot
from pipeline.lineage import documents
from pipeline.params import params_file
from sightword.errors import SightwordError, SweepError
from sightword.files import write_json

LOCKED = re.compile(r"Unable to acquire lock|database is locked|is busy, it is being|Unable to create .*\.lock'")
"""What DVC and git say when another process holds what they need; then the same is tried again."""
TRIES = 4
WAIT = 2.0
"""Seconds before the second try; each further wait is four times as long."""
POLL = 0.1
TAIL = 8
"""Lines of a log that are told of a failure."""
STATE = "state.json"


@dataclass(frozen=True)
class Event:
    """Something to tell: a job has ``started``, is ``done``, has ``failed``, or is to be tried ``again``."""

    kind: str
    job: Job
    slot: Slot | None = None
    seconds: float = 0.0
    log: Path | None = None
    tail: list[str] = field(default_factory=list)


@dataclass
class _Active:
    job: Job
    process: subprocess.Popen[bytes]
    began: float
    log: Path


@dataclass
class Worker:
    """A slot with its copy and what runs in it."""

    slot: Slot
    copy: Copy
    ready: bool = False
    active: _Active | None = None


class Sweep:
    """The work of one sweep.

    Args:
        folder: of this sweep: its lock, its copies, its logs.
        ground: project and commit.
        base: text of the parameter file that all runs start from.
        dvc: the command that is DVC.
        slots: where jobs run.
        tell: called with each event.
        replace: experiments of the same names and other parameters are replaced.
    """

    def __init__(
        self,
        folder: Path,
        ground: Ground,
        base: str,
        *,
        dvc: Sequence[str],
        slots: Sequence[Slot],
        tell: Callable[[Event], None],
        replace: bool = False,
    ) -> None:
        self._folder, self._ground, self._base, self._dvc = folder, ground, base, list(dvc)
        self._tell, self._replace = tell, replace
        self._workers = [
            Worker(slot, Copy(folder / f"slot-{slot.number}", ground, dvc, _environment(slot))) for slot in slots
        ]
        self._pipe: IO[str] | None = None
        self._state: dict[str, dict[str, str]] = {}

    def run(self, jobs: Sequence[Job], cache: str) -> list[Event]:
        """Run all jobs.

        Args:
            jobs: those to run, shared ones before those that need them.
            cache: the folder of DVC's cache.

        Returns:
            The failures.

        Raises:
            SweepError: another process runs this sweep, or git does not keep experiments.
            KeyboardInterrupt: interrupted; nothing it has started is left running.
        """
        with self._alone():
            try:
                return self._work(list(jobs), cache)
            finally:
                self._stop()
                for worker in self._workers:
                    with contextlib.suppress(OSError):  # the next sweep tries again
                        remove(worker.copy.folder)

    def _work(self, jobs: list[Job], cache: str) -> list[Event]:
        failures: list[Event] = []
        waiting = {makes for job in jobs for makes in job.makes}  # what others have to wait for
        broken: dict[str, Event] = {}  # what will never be made, and why
        later: dict[str, float] = {}  # jobs to try again, and when
        tries: dict[str, int] = {}
        while jobs or any(worker.active for worker in self._workers):
            for worker in self._workers:
                if worker.active is None:
                    job = next((job for job in jobs if self._may(job, waiting, later)), None)
                    if job is None:
                        continue
                    jobs.remove(job)
                    cause = next((broken[need] for need in sorted(job.needs) if need in broken), None)
                    event = self._unstarted(job, cause) if cause else self._start(worker, job, cache, tries)
                    if event is not None:
                        failures.append(event)
                        broken |= dict.fromkeys(job.makes, event)
                        waiting -= job.makes
                    continue
                event = self._ended(worker)
                if event is None:
                    continue
                job = event.job
                if event.kind == "failed" and self._locked(event) and tries[job.name] < TRIES:
                    later[job.name] = time.monotonic() + WAIT * 4 ** (tries[job.name] - 1)
                    jobs.insert(0, job)
                    self._say(Event("again", job, worker.slot, log=event.log))
                    continue
                waiting -= job.makes
                if event.kind == "failed":
                    broken |= dict.fromkeys(job.makes, event)
                    failures.append(event)
                self._say(event)
            time.sleep(POLL)
        return failures

    @staticmethod
    def _may(job: Job, waiting: set[str], later: Mapping[str, float]) -> bool:
        return not job.needs & waiting and time.monotonic() >= later.get(job.name, 0.0)

    def _start(self, worker: Worker, job: Job, cache: str, tries: dict[str, int]) -> Event | None:
        """Start a job; the event where even that fails."""
        tries[job.name] = tries.get(job.name, 0) + 1
        log = self.log(job.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            if not worker.ready:
                worker.copy.make(cache)
                worker.ready = True
            worker.copy.begin(_text(self._base, job.run))
        except SightwordError as error:
            log.write_text(f"{error}\n", encoding="utf-8")
            worker.ready = False
            event = Event("failed", job, worker.slot, log=log, tail=[str(error)])
            self._say(event)
            return event
        with log.open("wb" if tries[job.name] == 1 else "ab") as stream:
            process = subprocess.Popen(  # noqa: S603 - the caller's DVC; the name was made of plain letters
                [*self._dvc, "exp", "run", "--name", job.name, *job.stages],
                cwd=worker.copy.project,
                env=worker.copy.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that all it starts can be ended together, and Ctrl-C reaches us alone
            )
        self._guard(f"+{process.pid}")
        worker.active = _Active(job, process, time.monotonic(), log)
        self._say(Event("started", job, worker.slot, log=log))
        return None

    def _unstarted(self, job: Job, cause: Event) -> Event:
        event = Event("failed", job, None, log=cause.log, tail=["the stages it shares with others failed", *cause.tail])
        self._say(event)
        return event

    def _ended(self, worker: Worker) -> Event | None:
        """What became of the job in a slot; None while it runs."""
        active = worker.active
        if active is None or active.process.poll() is None:
            return None
        worker.active = None
        reaper.end({active.process.pid}, grace=1.0)  # nothing that it has started outlives it
        self._guard(f"-{active.process.pid}")
        job, seconds = active.job, time.monotonic() - active.began
        with contextlib.suppress(OSError):  # an experiment is not lost, nor the others ended, for want of its facts
            worker.copy.keep_facts()
        if active.process.returncode == 0:
            try:
                if job.stages or worker.copy.keep(job.name, replace=self._replace):
                    return Event("done", job, worker.slot, seconds, active.log)
                why = "dvc exp run ended well, and left no experiment"
            except SweepError as error:
                why = str(error)
            with active.log.open("a", encoding="utf-8") as stream:
                stream.write(f"{why}\n")
        return Event("failed", job, worker.slot, seconds, active.log, tail(active.log))

    @staticmethod
    def _locked(event: Event) -> bool:
        return any(LOCKED.search(line) for line in event.tail)

    def log(self, name: str) -> Path:
        """Where the log of a job is."""
        return self._folder / "logs" / f"{name}.log"

    def _say(self, event: Event) -> None:
        self._state[event.job.name] = {"state": event.kind, "log": str(event.log or "")}
        with contextlib.suppress(OSError):  # a full disk: what --status tells is then older
            write_json(self._folder / STATE, self._state)
        self._tell(event)

    def _stop(self) -> None:
        """End whatever still runs."""
        processes = [worker.active.process for worker in self._workers if worker.active]
        reaper.end({one.pid for one in processes}, reap=lambda: [one.poll() for one in processes])
        for worker in self._workers:
            if worker.active:
                worker.active.process.wait()
                self._guard(f"-{worker.active.process.pid}")
                worker.active = None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the sweep's lock, with a guard that ends our processes should this one be killed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("a+") as lock:
            _take(lock, self._folder)
            for left in sorted(self._folder.glob("slot-*")):  # of a sweep that was killed
                remove(left)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            process = subprocess.Popen(  # noqa: S603 - this Python, with a module of ours
                [sys.executable, "-I", reaper.__file__], stdin=subprocess.PIPE, text=True,
                start_new_session=True, pass_fds=[lock.fileno()],
            )  # fmt: skip
            self._pipe = process.stdin
            try:
                yield
            finally:
                self._pipe = None
                if process.stdin is not None:
                    with contextlib.suppress(BrokenPipeError):
                        process.stdin.close()
                process.wait()
                lock.truncate(0)

    def _guard(self, line: str) -> None:
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # somebody has ended it, and this process cleans up by itself
                self._pipe.write(f"{line}\n")
                self._pipe.flush()


def at_work(folder: Path) -> int | None:
    """The process that runs the sweep of a folder; None where none does."""
    try:
        with (folder / "lock").open("r") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = lock.read().strip()
                return int(text) if text.isdigit() else 0
    except OSError:
        pass  # never run
    return None


def tail(log: Path, lines: int = TAIL) -> list[str]:
    """The last lines of a log that say something."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 20_000))
        text = stream.read().decode(errors="replace")
    said = [line.rpartition("\r")[2].rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    return [line for line in said if line.strip()][-lines:]


def _take(lock: IO[str], folder: Path) -> None:
    """Take the lock; that of a killed sweep is free as soon as its guard has ended what it left."""
    limit = time.monotonic() + reaper.GRACE + 5
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            text = lock.read().strip()
            if (text.isdigit() and _lives(int(text))) or time.monotonic() > limit:
                raise SweepError(
                    f"this sweep is at work already (process {text or 'unknown'})",
                    where=folder.name,
                    todo="See how far it is with --status.",
                ) from None
            time.sleep(0.2)
        else:
            return


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _text(base: str, run: Run) -> str:
    """The parameter file of a run, as the stages will read it."""
    text = written(base, run)
    found = {name: section.model_dump() for name, section in params_file.check(documents.parse(text, run.name)).items()}
    if found != run.params:
        raise SweepError("its parameters cannot be written as YAML", where=run.name)
    return text


def _environment(slot: Slot) -> dict[str, str]:
    """What the processes of a slot find set: this Python first, and nothing of an experiment around us."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DVC_EXP_")}
    inherited.pop("DVC_ROOT", None)
    inherited.pop("DVC_STAGE", None)
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Pushing is left to the person: a copy has none of the project's git remotes.
    return {**inherited, **slot.environment, "PATH": path, "DVC_EXP_AUTO_PUSH": "0"}
