"""A pipe into which nobody writes: whoever opens it to read would wait for ever."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def silent_pipe(path: Path) -> Iterator[None]:
    """Make a pipe; a reader that waits for it is let go at once, and the block then fails."""
    os.mkfifo(path)
    waited, done = threading.Event(), threading.Event()

    def let_go() -> None:
        while not done.wait(0.02):
            with contextlib.suppress(OSError):  # nobody reads, or the pipe was removed
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                waited.set()

    thread = threading.Thread(target=let_go)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert not waited.is_set(), f"{path} was opened, and waited for"
