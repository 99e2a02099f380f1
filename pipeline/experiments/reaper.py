"""A guard that ends the processes of a sweep after the sweep's own process is gone, however it ended.

A killed process cannot clean up. The guard reads the sweep's process groups from a pipe (``+123`` begun, ``-123``
ended), and when the pipe closes it ends the groups that are left. The guard is run as a program, imports only the
standard library, and holds the sweep's lock until all processes have ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable

GRACE = 10.0
"""Seconds between the request to end and the kill."""


def end(groups: set[int], grace: float = GRACE, reap: Callable[[], object] = lambda: None) -> None:
    """End all processes of some process groups: ask, wait ``grace`` seconds, then kill.

    ``reap`` is called while waiting, so that the parent of the processes collects their exit codes; a process counts as
    running until then.
    """
    limit = time.monotonic() + grace
    left = {group for group in groups if _send(group, signal.SIGTERM)}
    while left and time.monotonic() < limit:
        reap()
        left = {group for group in left if _send(group, 0)}
        time.sleep(0.05 if left else 0)
    for group in left:
        _send(group, signal.SIGKILL)


def _send(group: int, number: int) -> bool:
    """Send a signal to a group, and return whether the group exists."""
    try:
        os.killpg(group, number)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def main() -> None:
    """Read the pipe to its end, then end the groups that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # signals meant for the sweep
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        with contextlib.suppress(ValueError):
            (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    end(groups)


if __name__ == "__main__":
    main()
