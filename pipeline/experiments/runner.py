"""The runner of a sweep: one job in each slot, until all are done or have failed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from filelock import lock_descriptor

from pipeline.experiments import clones, reaper
from pipeline.experiments.baseline import Baseline
from pipeline.experiments.clones import Clone
from pipeline.experiments.jobs import Job
from pipeline.experiments.plan import written
from pipeline.experiments.processes import Process, Processes
from pipeline.experiments.slots import Slot
from pipeline.lineage import repository
from sightword.errors import LineageError, SightwordError, SweepError
from sightword.io.files import write_json

LOCKED = re.compile(r"Unable to acquire lock|database is locked|is busy, it is being|Unable to create .*\.lock'")
"""Messages of DVC and git when another process holds a lock; the job is then tried again."""
TRIES = 4
WAIT = 2.0
"""Seconds before the second try; each further wait is four times as long."""
POLL = 0.1
TAIL = 8
"""Lines of a log that are shown after a failure."""
STATE = "state.json"


@dataclass(frozen=True)
class Event:
    """Progress of a job: ``started``, ``done``, ``failed``, or ``again`` for a job that will be tried again."""

    kind: str
    job: Job
    slot: Slot | None = None
    seconds: float = 0.0
    log: Path | None = None
    tail: list[str] = field(default_factory=list)


@dataclass
class _Worker:
    """A slot with its clone and its running job."""

    slot: Slot
    clone: Clone
    ready: bool = False
    job: Job | None = None
    running: Process | None = None
    began: float = 0.0


@dataclass
class Sweep:
    """The work of one sweep."""

    folder: Path
    """The sweep's folder, with its lock, clones and logs."""
    baseline: Baseline
    base: str
    """The text of the parameter file that all runs start from."""
    slots: Sequence[Slot]
    report: Callable[[Event], None]
    """Called with each event."""
    replace: bool = False
    """Replace experiments of the same names and other parameters."""
    _processes: Processes = field(default_factory=Processes)
    _state: dict[str, dict[str, str]] = field(default_factory=dict)
    _tries: Counter[str] = field(default_factory=Counter)
    _later: dict[str, float] = field(default_factory=dict)
    """The times of further tries."""

    def __post_init__(self) -> None:
        self._workers = [
            _Worker(slot, Clone(self.folder / f"slot-{slot.number}", self.baseline, environment_of(slot)))
            for slot in self.slots
        ]

    def run(self, jobs: Sequence[Job], cache: str) -> list[Event]:
        """Run all jobs with DVC's cache in a folder, shared ones before those that need them; return the failures.

        Raises:
            SweepError: another process runs this sweep.
            KeyboardInterrupt: interrupted; nothing is left running.
        """
        with self._hold_lock() as lock:
            try:
                with self._processes.guarded(lock):
                    return self._work(list(jobs), cache)
            finally:
                for worker in self._workers:
                    shutil.rmtree(worker.clone.folder, ignore_errors=True)

    def _work(self, jobs: list[Job], cache: str) -> list[Event]:
        failures: list[Event] = []
        waiting = {makes for job in jobs for makes in job.makes}  # shared stages that have not ended
        broken: dict[str, Event] = {}  # shared stages that failed
        while jobs or any(worker.running for worker in self._workers):
            for event in self._step(jobs, waiting, broken, cache):
                self._state[event.job.name] = {"state": event.kind}
                with contextlib.suppress(OSError):  # on a full disk --status shows an older state
                    write_json(self.folder / STATE, self._state)
                self.report(event)
                if event.kind == "again":
                    jobs.insert(0, event.job)
                elif event.kind != "started":
                    waiting -= event.job.makes
                if event.kind == "failed":
                    failures.append(event)
                    broken |= dict.fromkeys(event.job.makes, event)
            time.sleep(POLL)
        return failures

    def _step(self, jobs: list[Job], waiting: set[str], broken: dict[str, Event], cache: str) -> Iterator[Event]:
        """Look at all slots, and start jobs in free ones; the event that is yielded is taken in before the next."""
        for worker in self._workers:
            if event := self._finish(worker):
                yield event
        for worker in self._workers:
            if worker.running:
                continue
            if job := next((job for job in jobs if self._may_start(job, waiting)), None):
                jobs.remove(job)
                if cause := next((broken[need] for need in sorted(job.needs) if need in broken), None):
                    lines = ["the stages it shares with others failed", *cause.tail]
                    yield Event("failed", job, log=cause.log, tail=lines)
                else:
                    yield self._start(worker, job, cache)

    def _may_start(self, job: Job, waiting: set[str]) -> bool:
        return not job.needs & waiting and time.monotonic() >= self._later.get(job.name, 0.0)

    def _start(self, worker: _Worker, job: Job, cache: str) -> Event:
        self._tries[job.name] += 1
        log = self._log(job)
        log.parent.mkdir(parents=True, exist_ok=True)
        if self._tries[job.name] == 1:
            log.unlink(missing_ok=True)
        try:
            if not worker.ready:
                worker.clone.make(cache)
                worker.ready = True
            worker.clone.begin(written(self.base, job.run), self.baseline.executed(job.stages, job.run.params))
        except SightwordError as error:
            log.write_text(f"{error}\n", encoding="utf-8")
            worker.ready = False
            return Event("failed", job, worker.slot, log=log, tail=[str(error)])
        command = [*clones.DVC, "exp", "run", "--name", job.name, *self.baseline.targets(job.stages)]
        worker.running = self._processes.start(command, worker.clone.project, worker.clone.environment, log)
        worker.job, worker.began = job, time.monotonic()
        return Event("started", job, worker.slot, log=log)

    def _log(self, job: Job) -> Path:
        return self.folder / "logs" / f"{job.name}.log"

    def _finish(self, worker: _Worker) -> Event | None:
        """Return the result of the job in a slot; None while it runs."""
        running, job = worker.running, worker.job
        if running is None or job is None or (code := running.poll()) is None:
            return None
        log = self._log(job)
        worker.running = None
        event = Event("done", job, worker.slot, time.monotonic() - worker.began, log)
        with contextlib.suppress(OSError):  # missing facts must not cost the experiment
            worker.clone.fetch_facts()
        if code == 0:
            try:
                if job.stages or worker.clone.fetch(job.name, replace=self.replace):
                    return event
                why = "dvc exp run ended well, and left no experiment"
            except LineageError as error:
                why = str(error)
            with log.open("a", encoding="utf-8") as stream:
                stream.write(f"{why}\n")
        lines, tries = tail(log), self._tries[job.name]
        if tries < TRIES and any(LOCKED.search(line) for line in lines):
            self._later[job.name] = time.monotonic() + WAIT * 4 ** (tries - 1)
            return replace(event, kind="again", tail=["another process holds a lock"])
        return replace(event, kind="failed", tail=lines)

    @contextlib.contextmanager
    def _hold_lock(self) -> Iterator[int]:
        """Hold the sweep's lock, and yield its descriptor.

        The lock of a killed sweep is free as soon as the guard has ended the jobs.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        limit = time.monotonic() + reaper.GRACE + 5
        with (self.folder / "lock").open("a+") as lock:
            while not lock_descriptor(lock.fileno(), blocking=False):
                lock.seek(0)
                owner = int(lock.read().strip() or 0)
                if (owner and _is_alive(owner)) or time.monotonic() > limit:
                    what = f"this sweep is at work already (process {owner or 'unknown'})"
                    raise SweepError(what, where=self.folder.name, todo="See its progress with --status.")
                time.sleep(0.2)
            for left in self.folder.glob("slot-*"):  # clones of a killed sweep
                shutil.rmtree(left)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            try:
                yield lock.fileno()
            finally:
                lock.truncate(0)


def find_process(folder: Path) -> int | None:
    """Return the process that runs the sweep of a folder; None without one, 0 for an unknown one."""
    try:
        with (folder / "lock").open("r+") as lock:
            return None if lock_descriptor(lock.fileno(), blocking=False) else int(lock.read().strip() or 0)
    except OSError:
        return None  # the sweep never ran


def tail(log: Path, lines: int = TAIL) -> list[str]:
    """Return the last lines of a log, without empty lines and progress bars."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 20_000))
        text = stream.read().decode(errors="replace")
    found = [line.rpartition("\r")[2].rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    return [line for line in found if line.strip()][-lines:]


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # another user's process
    return True


def environment_of(slot: Slot) -> dict[str, str]:
    """Return the environment of a slot's processes: this Python first, and nothing of an experiment around this one."""
    inherited = repository.environment().items()
    own = {name: value for name, value in inherited if not name.startswith(("DVC_EXP_", "DVC_ROOT", "DVC_STAGE"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # A clone has none of the project's git remotes: the user pushes.
    return {**own, **slot.environment, "PATH": path, "DVC_EXP_AUTO_PUSH": "0"}
