"""Reading in the background, so that a page answers while pictures and captions are read."""

from __future__ import annotations

import logging
import os
import sys
import threading

from sightword.errors import SearchError
from sightword.search.searcher import Searcher

log = logging.getLogger(__name__)

LONGEST_PAUSE = 3600.0
"""Seconds."""


def keep_reading(searcher: Searcher, stop: threading.Event, *, pause: float = 5.0, progress: bool = False) -> None:
    """Read the pictures of the folder and embed the captions, in a thread with a lower priority.

    After an error the log has a warning, ``searcher.problem`` is set, and after ``pause`` seconds the same is tried
    again, since the page needs it; the pause doubles after each error, up to :data:`LONGEST_PAUSE`. A
    SearchError ends the reading.

    Args:
        searcher: the open collection.
        stop: ends the reading.
        pause: seconds.
        progress: show a bar of the pictures on standard error.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()  # on Linux a priority is a thread's own
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + 10))
    while not stop.is_set():
        try:
            searcher.read_pictures(progress=progress, stop=stop)
            return searcher.read_captions(stop=stop)
        except SearchError as error:  # the pictures or the encoder cannot be used: another try would not help
            searcher.problem = str(error)
            log.warning("%s", error)
            return None
        except Exception as error:  # noqa: BLE001 - the next try may succeed, and queries go on meanwhile
            searcher.problem = f"{type(error).__name__}: {error}"
            what, read, of = "pictures", searcher.pictures_read, searcher.pictures_read + searcher.pictures_left
            if not searcher.pictures_left:
                what, read, of = "captions", searcher.captions_read, len(searcher.catalogue.captions)
            say = "reading the %s failed at %d of %d (%s); trying again in %.0f s"
            log.warning(say, what, read, of, searcher.problem, pause)
            stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
    return None
