"""Ends what a sweep has started when the sweep itself is gone, by whatever way.

A killed process cannot clean up. This one reads from it which process groups there are (``+123`` begun, ``-123``
ended), and when the pipe closes it ends those that are left. Run as a program; it imports nothing but the standard
library, and holds the sweep's lock until all is quiet.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable

GRACE = 10.0
"""Seconds from asking a process to end to ending it."""


def end(groups: set[int], grace: float = GRACE, reap: Callable[[], object] = lambda: None) -> None:
    """End all processes of some groups: ask, wait, then kill.

    Args:
        groups: their numbers.
        grace: seconds from the one to the other.
        reap: called while it waits; who has started the processes asks for their exit codes in it, since until then
            they count as there.
    """
    for group in groups:
        _send(group, signal.SIGTERM)
    limit = time.monotonic() + grace
    left = set(groups)
    while left and time.monotonic() < limit:
        reap()
        left = {group for group in left if _send(group, 0)}
        time.sleep(0.05 if left else 0)
    for group in left:
        _send(group, signal.SIGKILL)


def _send(group: int, number: int) -> bool:
    """Whether the group is still there."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main() -> None:
    """Read the pipe to its end, then end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # those meant for the sweep
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        with contextlib.suppress(ValueError):
            (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    end(groups)


if __name__ == "__main__":
    main()
