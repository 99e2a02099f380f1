"""The errors that libtiff reports while it decodes, collected instead of written to standard error.

libtiff continues after some errors, such as a bad code word in a fax, and Pillow then accepts the picture.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
from collections.abc import Iterator

from PIL import _imaging

log = logging.getLogger(__name__)

# void (*)(const char *module, const char *format, va_list values); the values stay unread.
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)


class _Heard(threading.local):
    errors: list[str] | None = None


_heard = _Heard()
_lock = threading.Lock()
_listeners = 0
_before: int | None = None


def _hear(module: bytes | None, text: bytes | None, _: int | None) -> None:
    """Keep an error of this thread's picture; log one of a thread that does not listen."""
    words = (text or b"").decode("ascii", "replace").split("%")[0].split(" at ")[0].rstrip(" :,(.")
    # The module is a function of libtiff's, or the name that Pillow gives to every file.
    error = words if module in (None, b"tempfile.tif") else f"{module.decode('ascii', 'replace')}: {words}"
    if _heard.errors is None:
        log.warning("libtiff: %s", error)
    else:
        _heard.errors.append(error)


_handler = _Handler(_hear)


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    """Yield a list that gets the errors libtiff reports in this thread, without the numbers in them.

    Where Pillow has libtiff hidden inside itself, the list stays empty.
    """
    _heard.errors = []
    _listen(1)
    try:
        yield _heard.errors
    finally:
        _listen(-1)
        _heard.errors = None


def _listen(step: int) -> None:
    """Count the threads that listen; the first one puts the handler in, the last one takes it out."""
    global _listeners, _before
    try:
        # Found among the libraries that Pillow's own module loads, wherever they lie.
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
