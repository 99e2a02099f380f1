"""The server of the local page."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable

from flask import Flask

from sightword.errors import SetupError
from sightword.search.uploads import MAX_BYTES

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
