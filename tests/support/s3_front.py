"""An S3 server's front: it counts requests and bytes, and answers some of them badly."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Answer = tuple[int, dict[str, str], bytes]
"""A status, headers and a body."""
Fault = Callable[[str, str], str | Answer]
"""Returns what becomes of a request: ``slow``, ``cut``, ``drop``, ``hang``, ``denied``, another answer than that of the
server, or nothing for that of the server."""

SLOW = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class Front:
    """Hands requests on to a server.

    Args:
        endpoint: the server's address.
        fault: what becomes of a request; may be replaced at any time.
    """

    def __init__(self, endpoint: str, fault: Fault = lambda _method, _path: "") -> None:
        self.target = urlsplit(endpoint).netloc
        self.fault = fault
        self.requests: Counter[str] = Counter()
        """By what was asked for: LIST, HEAD, DELETE, and GET and PUT with the ending of the object's name."""
        self.asked: list[tuple[str, str]] = []
        self.received = self.sent = 0
        """Bytes of bodies, from the client and to it."""
        self._lock = threading.Lock()
        front = self

        class Handler(_Handler):
            owner = front

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def clear(self) -> None:
        """Count from 0."""
        with self._lock:
            self.requests.clear()
            self.asked.clear()
            self.received = self.sent = 0

    def count(self, method: str, path: str, received: int) -> None:
        kind = "LIST" if method == "GET" and "list-type=2" in path else method
        ending = path.partition("?")[0].rpartition("/")[2].rpartition(".")[2]
        with self._lock:
            self.requests[kind if kind in ("LIST", "HEAD", "DELETE") else f"{kind} {ending}"] += 1
            self.asked.append((method, path))
            self.received += received


def first_tries(fault: str) -> Callable[[str, str], str]:
    """Return a fault for the first try of each request."""
    seen: set[tuple[str, str]] = set()

    def fail(method: str, path: str) -> str:
        new = (method, path) not in seen
        seen.add((method, path))
        return fault if new else ""

    return fail


@contextmanager
def front_of(endpoint: str) -> Iterator[Front]:
    front = Front(endpoint)
    try:
        yield front
    finally:
        front.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Front

    def log_message(self, *_: object) -> None:
        pass

    def _any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        fault = self.owner.fault(self.command, self.path)
        body = self.rfile.read(length // 2 if fault == "cut" and self.command == "PUT" else length)
        self.owner.count(self.command, self.path, len(body))
        if not isinstance(fault, str):
            self._reply(*fault)
            return
        if fault in ("slow", "denied"):
            self._reply(
                503 if fault == "slow" else 403,
                {"Content-Type": "application/xml"},
                SLOW if fault == "slow" else DENIED,
            )
            return
        if fault in ("drop", "hang"):
            time.sleep(0 if fault == "drop" else 30)
            self.close_connection = True
            return
        status, headers, answer = self._ask(body)
        if fault == "cut":
            self.close_connection = True
            if self.command == "PUT":  # the server has kept the half of it
                return
            self._start(status, headers, len(answer))
            self.wfile.write(answer[: len(answer) // 2])
            return
        self._reply(status, headers, answer)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Answer GET, PUT and all other methods alike: http.server looks for ``do_GET`` and the like."""
        if not name.startswith("do_"):
            raise AttributeError(name)
        return self._any

    def _ask(self, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self.owner.target, timeout=30)
        try:
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in ("content-length", "expect", "connection")
            }
            connection.request(self.command, self.path, body if self.command in ("PUT", "POST") else None, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        except OSError:
            return 500, {}, b""
        finally:
            connection.close()

    def _reply(self, status: int, headers: dict[str, str], answer: bytes) -> None:
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else len(answer)
        self._start(status, headers, length)
        if self.command != "HEAD":
            self.wfile.write(answer)
        self.owner.sent += len(answer)

    def _start(self, status: int, headers: dict[str, str], length: int | str) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
