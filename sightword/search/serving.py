"""The server of the local page: its port, who may ask, and the reading in the background.

Any web page that a person visits can make the browser send requests to ``http://127.0.0.1``. Three checks refuse such
requests: ``Host`` must name this machine (DNS rebinding makes a foreign name point here), ``Sec-Fetch-Site`` must not
report another site, and the headers of every answer keep other pages from reading the answer.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Flask
from werkzeug.datastructures import Headers

from sightword.errors import SearchError, SetupError

if TYPE_CHECKING:
    from sightword.search.searcher import Searcher

log = logging.getLogger(__name__)

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every answer: the page loads nothing from elsewhere, runs its own scripts only, and cannot be framed."""
MAX_BYTES = 32 << 20
"""Largest file of an uploaded picture."""
_THREADS = 8
_HEADERS = 1 << 20
"""Bytes: even a far too long query arrives, and gets an answer that says so."""
_CONNECTIONS = 400
"""Connections open at a time. With a temporary file for an upload each, a process has fewer than 1,024 files open."""
_WAITING, _LOOK = 20, 5
"""Seconds after which a silent connection is closed, and seconds between two such checks."""


def listen(host: str, port: int) -> socket.socket:
    """Take a port, 0 for any free one, before any costly work; clients that connect meanwhile wait.

    Raises:
        SetupError: the port is in use or not allowed, or the host is not an address of this machine.
    """
    found = None
    try:
        kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=kind, flags=flags)[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen()
    except (OSError, UnicodeError) as error:
        if found is not None:
            found.close()
        number, reason = (error.errno, error.strerror) if isinstance(error, OSError) else (0, "not a host's name")
        what, todo = {
            errno.EADDRINUSE: ("the port is in use", "Give another port, or port 0 for any free one."),
            errno.EACCES: ("the port is reserved for the system", "Give a port of 1024 or above."),
        }.get(number or 0, (f"cannot listen there ({reason})", "Give an address of this machine, such as 127.0.0.1."))
        raise SetupError(what, where=f"{host}:{port}", todo=todo) from None
    return found


def address(listening: socket.socket) -> str:
    """Return the address of the page."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(app: Flask, listening: socket.socket, ready: Callable[[], object] = int) -> None:
    """Answer on the socket of :func:`listen` until the process is interrupted; first call ``ready``."""
    from waitress.server import create_server

    # waitress warns of each page with more pictures than threads, and of connections that come and go.
    for name in ("waitress", "waitress.queue"):
        logging.getLogger(name).setLevel(logging.ERROR)
    server = create_server(
        app,
        sockets=[listening],
        threads=_THREADS,
        ident=None,
        max_request_body_size=MAX_BYTES,
        max_request_header_size=_HEADERS,
        connection_limit=_CONNECTIONS,
        channel_timeout=_WAITING,
        cleanup_interval=_LOOK,
        asyncore_use_poll=True,  # select() takes no file with a number of 1,024 or more
        log_socket_errors=False,
    )
    try:
        ready()
        server.run()
    finally:
        server.close()


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on ``host``."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class AccessPolicy:
    """Decides which requests are answered.

    Args:
        host: where the server listens. On loopback only the names of the loopback are accepted. Elsewhere any IP
            address is accepted too, and the names of this machine: DNS cannot make an address point elsewhere.
    """

    def __init__(self, host: str) -> None:
        self._only_loopback = is_loopback(host)
        self._names = {"localhost"}
        if not self._only_loopback:
            self._names |= {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}

    def names_this_machine(self, host: str | None) -> bool:
        """Return whether the header ``Host`` names this machine."""
        host = host or ""
        try:
            parts = urlsplit(f"//{host}")
            name, _ = parts.hostname or "", parts.port  # a port that is not a number is a ValueError
            if "@" in host or "/" in host:
                return False
            if name in self._names:
                return True
            return ipaddress.ip_address(name).is_loopback or not self._only_loopback
        except ValueError:
            return False

    def is_cross_site(self, headers: Headers, *, top_page: bool) -> bool:
        """Return whether the page of another site sent the request; other sites may link to the ``top_page``."""
        site = headers.get("Sec-Fetch-Site", "none")
        if site not in ("none", "same-origin"):
            return not (top_page and headers.get("Sec-Fetch-Mode") == "navigate")
        origin = headers.get("Origin")  # browsers send it with every POST
        return origin is not None and urlsplit(origin).netloc != headers.get("Host")


def keep_reading(searcher: Searcher, stop: threading.Event, *, progress: bool = False) -> None:
    """Read the pictures of the folder and embed the captions, in a thread with a lower priority, until ``stop`` is set.

    An error ends the reading; the log has a warning, and ``searcher.problem`` is set.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()  # on Linux a priority is a thread's own
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + 10))
    try:
        searcher.read_quickly(progress=progress, stop=stop)
        if not stop.is_set():
            searcher.read_pictures(progress=progress, stop=stop)
        searcher.read_captions(stop=stop)
    except SearchError as error:  # the pictures or the encoder cannot be used
        searcher.problem = str(error)
        log.warning("%s", error)
    except Exception as error:  # noqa: BLE001 - queries go on
        searcher.problem = f"{type(error).__name__}: {error}"
        log.warning("reading failed (%s); the command, started again, goes on", searcher.problem)
