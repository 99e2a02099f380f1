"""Collects the errors that libtiff reports while decoding, instead of writing them to standard error.

libtiff continues after some errors, such as a bad code word in a fax, and Pillow then accepts the picture.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import re
import threading
from collections.abc import Iterator

from PIL import _imaging

log = logging.getLogger(__name__)

# void (*)(const char *module, const char *format, va_list values); the values are not read.
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)


class _Collected(threading.local):
    errors: list[str] | None = None


_collected = _Collected()
_lock = threading.Lock()
_listeners = 0
_before: int | None = None


def _handle(module: bytes | None, text: bytes | None, _: int | None) -> None:
    """Collect an error, or log it in a thread that does not collect errors."""
    pieces = re.split(r"%[^a-zA-Z]*l*[a-zA-Z]", (text or b"").decode("ascii", "replace"))
    words = next(filter(str.strip, pieces), "").split(" at ")[0].strip(" :,(.")
    # The module is a function of libtiff, or the name that Pillow gives to every file.
    error = words if module in (None, b"tempfile.tif") else f"{module.decode('ascii', 'replace')}: {words}"
    if _collected.errors is None:
        log.warning("libtiff: %s", error)
    else:
        _collected.errors.append(error)


_handler = _Handler(_handle)


@contextlib.contextmanager
def collect_errors() -> Iterator[list[str]]:
    """Yield a list that collects libtiff's errors in this thread, without the numbers in them.

    The list stays empty if libtiff is linked statically into Pillow.
    """
    _collected.errors = []
    _listen(1)
    try:
        yield _collected.errors
    finally:
        _listen(-1)
        _collected.errors = None


def _listen(step: int) -> None:
    """Count the collecting threads; the first installs the handler and the last removes it."""
    global _listeners, _before
    try:
        # The symbol is found through the libraries that Pillow's own module loads.
        exchange = ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler
    except (AttributeError, OSError):
        return
    exchange.argtypes, exchange.restype = [ctypes.c_void_p], ctypes.c_void_p
    with _lock:
        _listeners += step
        if _listeners == 1 and step == 1:
            _before = exchange(ctypes.cast(_handler, ctypes.c_void_p))
        elif _listeners == 0:
            exchange(_before)
