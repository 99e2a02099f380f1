"""A real server on this machine that misbehaves as it is told."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline.downloads.fetching import Order
from pipeline.downloads.sources import Source
from sightword.io.transfer import Patience


class Site:
    """Serves ``files``; ``plans`` says, by path, what happens to the next requests, one entry each.

    An entry is a status, ``cut N`` (so many bytes of the body, then the line is dead), ``slow N`` (so many bytes,
    then silence until the site closes), ``changed`` (another file with another ETag from now on),
    ``shifted`` (a range that begins elsewhere), or ``page`` (a web page).
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.plans: dict[str, list[str]] = {}
        self.requests: list[tuple[str, str | None]] = []
        """Each path with its Range."""
        self.ranges = True
        self.tags = True
        self.weak = False
        """Tags are weak ones."""
        self.heeds_if_range = True
        """False for a server or proxy that sends a range of whatever file is there."""
        self.tells_of_parts = True
        """Tags stand in answers that are parts, too."""
        self.lengths = True
        self.closing = threading.Event()
        self.silent = threading.Event()
        """Set when a slow answer has fallen silent."""
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a client that hangs up
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{path}"

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.lstrip("/")
        asked = request.headers.get("Range")
        self.requests.append((path, asked))
        plan = self.plans.get(path, [])
        action, _, count = (plan.pop(0) if plan else "").partition(" ")
        if action == "changed":
            self.files[path] = self.files[path][::-1]
            action = ""
        if action.isdecimal():
            request.send_response(int(action))
            if action.startswith("30"):
                request.send_header("Location", self.url(count))
            elif count:
                request.send_header("Retry-After", count)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if path not in self.files:
            request.send_error(404)
            return
        body = self.files[path]
        tag = f'{"W/" if self.weak else ""}"{hash(body)}"'
        validators = {"ETag": tag} if self.tags else {}
        start = 0
        condition = request.headers.get("If-Range")
        unchanged = condition is None or not self.heeds_if_range or condition in validators.values()
        if asked and self.ranges and unchanged:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(body) > 0:
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(body)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if action == "shifted" and start:
            start += 1
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if self.tells_of_parts or not start:
            for name, value in validators.items():
                request.send_header(name, value)
        request.send_header("Content-Type", "text/html; charset=utf-8" if action == "page" else "application/zip")
        if self.lengths:
            request.send_header("Content-Length", str(len(body) - start))
        else:
            request.send_header("Connection", "close")
        request.end_headers()
        end = start + int(count) if action in ("cut", "slow") else len(body)
        request.wfile.write(body[start:end])
        request.wfile.flush()
        if action == "slow":
            self.silent.set()
            self.closing.wait(30)
        if action in ("cut", "slow") or not self.lengths:
            request.close_connection = True


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()
    yield served
    served.close()


@pytest.fixture
def patience() -> Patience:
    """Tests do not wait."""
    return Patience(wait=0.01, timeout=2)


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


@pytest.fixture
def make_zip() -> Callable[[dict[str, bytes]], bytes]:
    return zipped


@pytest.fixture
def source(site: Site) -> Callable[..., Source]:
    """A file of the site as an entry of the table."""

    def make(file: str = "words.txt", **fields: object) -> Source:
        entry = {"part": "words", "what": "words", "file": file, "urls": [site.url(file)], **fields}
        return Source.model_validate(entry)

    return make


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """The folder of raw data."""
    folder = tmp_path / "raw"
    folder.mkdir()
    return folder


@pytest.fixture
def order(raw, patience) -> Callable[..., Order]:
    def make(**fields: object) -> Order:
        return Order("own", raw / "own", patience=patience, **fields)

    return make


@pytest.fixture
def archive(site, source, make_zip) -> Source:
    """An archive of two kinds of files."""
    site.files["own.zip"] = make_zip({f"pictures/{number}.jpg": bytes([number]) * 999 for number in range(20)})
    return source("own.zip", into={"pictures/*.jpg": "images"}, counts={"images": 20})
