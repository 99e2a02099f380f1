"""The progress of a sweep on standard error: a bar on a terminal, and a line for each event."""

from __future__ import annotations

import sys
from pathlib import Path

from tqdm import tqdm

from pipeline.experiments.runner import Event


class Progress:
    """A progress bar, as a context manager.

    Args:
        total: the number of experiments.
        slots: the number of slots.
    """

    def __init__(self, total: int, slots: int) -> None:
        self._bar = tqdm(total=total, desc="sweep", unit="experiment", disable=None)
        self._total, self._slots, self._ended, self._failed, self._running = total, slots, 0, 0, 0
        self._seconds: list[float] = []

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def report(self, event: Event) -> None:
        """Print an event and update the bar."""
        job = event.job
        name = f"{job.name} ({', '.join(job.stages)})" if job.stages else job.name
        self._running += {"started": 1, "done": -1, "again": -1}.get(event.kind, -1 if event.seconds else 0)
        if event.kind in ("done", "failed") and not job.stages:
            self._ended += 1
            self._failed += event.kind == "failed"
            self._bar.update()
            if event.kind == "done":
                self._seconds.append(event.seconds)
        if event.kind == "started":
            line = f"started  {name}" + (f" ({event.slot.place})" if event.slot else "")
        elif event.kind == "again":
            line = f"waits    {name}: another process holds a lock"
        elif event.kind == "done":
            line = f"done     {name} in {_duration(event.seconds)}{self._left()}"
        else:
            tail = "".join(f"\n    {line}" for line in event.tail)
            log = relative(event.log) if event.log else "-"
            line = f"FAILED   {name} after {_duration(event.seconds)}; full log: {log}{tail}"
        self._bar.write(line, file=sys.stderr)
        sys.stderr.flush()
        self._bar.set_postfix(running=self._running, failed=self._failed)

    def _left(self) -> str:
        left = self._total - self._ended
        if not left or not self._seconds:
            return ""
        seconds = sum(self._seconds) / len(self._seconds) * left / min(self._slots, left)
        return f"; {self._ended} of {self._total}, about {_duration(seconds)} left"


def relative(path: Path) -> str:
    """Return a path as typed in the working folder."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
