"""`sightword search` as a process: with a pipe, on a terminal, and as the server of a page."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import fork_server
import pytest
from werkzeug.datastructures import Headers

from pipeline.cli import main
from sightword.search.serving import MAX_BYTES, AccessPolicy, is_loopback

pytestmark = pytest.mark.usefixtures("here")


def command() -> list[str]:
    return [fork_server.python(), "-m", "pipeline.cli", "search", "models/encoder"]


@pytest.mark.slow
def test_lines_of_standard_input_are_answered_when_whole(searcher):
    pipe = subprocess.PIPE
    with subprocess.Popen([*command(), "--json", "--top", "2"], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdin.write(b"a red circle\n\n\xff\xfe\n\xd0")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 120)[0], "the first line waits for the rest of the last"
        out, errors = process.communicate(b"\xb4\na blue square\r\n\na")
    assert process.returncode == 1
    found = [json.loads(line) for line in out.splitlines()]
    assert [answer["query"] for answer in found] == ["a red circle", "a blue square", "a"]
    assert found[1]["pictures"][0]["id"] == searcher.pictures("a blue square", 1).hits[0].picture
    said = errors.decode()
    assert "the query is not valid UTF-8 (byte 1)" in said
    assert "no character of the query is known" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_terminal_answers_line_by_line():
    terminal, end = pty.openpty()
    process = subprocess.Popen([*command(), "--top", "1"], stdin=end, stdout=end, stderr=end)
    os.close(end)
    until(terminal, b"Type a sentence; Ctrl-D ends.")
    for typed, answer in ((b"a red circle\n", b"   1  "), ("дом\n".encode(), b"no character of the query is known")):
        os.write(terminal, typed)
        until(terminal, answer)
    os.write(terminal, b"\x04")
    assert process.wait(300) == 0
    os.close(terminal)


def until(terminal: int, wanted: bytes) -> bytes:
    said = b""
    while wanted not in said:
        assert select.select([terminal], [], [], 60)[0], said
        said += os.read(terminal, 1 << 16)
    return said


@pytest.fixture
def page(world, tmp_path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A page that is served by a process of its own, which opens a browser, and its port."""
    (tmp_path / "browser").write_text(
        f'#!/bin/sh\ntest "${{1#http://127.0.0.1:}}" != "$1" && touch {tmp_path}/opened\n'
    )
    (tmp_path / "browser").chmod(0o755)
    process = subprocess.Popen(
        [*command(), "--serve", "--port", "0"],
        env={**os.environ, "DISPLAY": ":0", "BROWSER": str(tmp_path / "browser")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, int(re.search(r"http://127\.0\.0\.1:(\d+)/", line)[1])
    finally:
        process.kill()
        process.communicate()


def ask(port: int, method: str, path: str, **options) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, **options)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.slow
def test_page_is_served_to_this_machine_until_ctrl_c(page, capsys, tmp_path):
    process, port = page
    assert ask(port, "GET", "/")[0] == 200
    while not (tmp_path / "opened").exists():  # a thread opens the browser
        time.sleep(0.1)
    assert process.poll() is None
    status, body = ask(port, "GET", "/api/pictures?q=a+red+circle&top=3")
    assert (status, len(json.loads(body)["pictures"])) == (200, 3)
    status, body = ask(port, "GET", "/api/pictures?q=" + "%D0%B4" * 100_000)
    assert (status, json.loads(body)["error"][:32]) == (422, "The query has 100,000 characters")
    assert ask(port, "GET", "/../../../../etc/passwd")[0] == 404
    assert ask(port, "GET", "/", headers={"Host": "evil.example"})[0] == 403
    big = {"Content-Type": "application/octet-stream", "Content-Length": str(MAX_BYTES + 1)}
    assert ask(port, "POST", "/api/picture", headers=big)[0] == 413  # before a byte of it came
    with socket.socket() as elsewhere, pytest.raises(ConnectionRefusedError):
        elsewhere.connect(("127.0.0.2", port))  # answered if it listened on more than 127.0.0.1
    assert main(["search", "models/encoder", "--serve", "--port", str(port)]) == 1
    assert f"127.0.0.1:{port}: the port is in use. Give another port" in capsys.readouterr().err
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0
    assert error.startswith("Loading the encoder …\n")
    assert "Traceback" not in error


SERVER = """
from flask import Flask, request
from sightword.search import serving

serving._WAITING, serving._LOOK = 3, 1
app = Flask("test")
app.add_url_rule("/", "page", lambda: "here")
app.add_url_rule("/upload", "upload", lambda: str(len(request.get_data())), methods=["POST"])
with serving.listen("127.0.0.1", 0) as listening:
    serving.serve(app, listening, lambda: print(serving.address(listening), flush=True))
"""
UPLOAD = b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc"


def test_silent_connections_and_slow_uploads_are_closed():
    with contextlib.ExitStack() as stack:
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            cwd=Path(__file__).resolve().parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.callback(server.communicate)
        stack.callback(server.kill)
        address = re.search(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())
        place = ("127.0.0.1", int(address[1]))
        silent = [stack.enter_context(socket.create_connection(place, timeout=20)) for _ in range(120)]
        for connection in silent[::2]:
            connection.sendall(UPLOAD)
        began = time.monotonic()
        with urllib.request.urlopen(address[0], timeout=20) as answer:
            assert answer.read() == b"here"
        assert time.monotonic() - began < 10
        for connection in silent:
            assert connection.recv(1) == b""  # closed by now
        assert time.monotonic() - began < 40
        server.kill()
        assert server.communicate()[1] == ""


def test_names_of_this_machine_alone_are_accepted():
    here, everywhere = AccessPolicy("127.0.0.1"), AccessPolicy("0.0.0.0")
    for host in ("localhost", "LOCALHOST:8377", "127.9.9.9", "[::1]:8377", "[::1]"):
        assert here.names_this_machine(host)
        assert everywhere.names_this_machine(host)
    for host in (
        None, "evil.example:8377", "127.0.0.1.evil.example", "localhost@evil.example", "evil.example#localhost",
        "localhost/", "[::1", "127.0.0.1:port", "2130706433", "0x7f.1", "127.0.0.1:99999999", "\x00localhost",
    ):  # fmt: skip
        assert not here.names_this_machine(host), host
        assert not everywhere.names_this_machine(host), host
    for host in ("192.0.2.7:8377", "[2001:db8::1]:8377"):
        assert not here.names_this_machine(host)
        assert everywhere.names_this_machine(host)
    assert AccessPolicy("lab.example").names_this_machine("lab.example:8377")
    hosts = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "lab", "192.0.2.1")
    assert [is_loopback(host) for host in hosts] == [True, True, True, False, False, False]


@pytest.mark.parametrize(
    ("headers", "top_page", "elsewhere"),
    [
        ({}, False, False),  # no browser
        ({"Sec-Fetch-Site": "none"}, False, False),
        ({"Sec-Fetch-Site": "same-origin"}, False, False),
        ({"Sec-Fetch-Site": "cross-site"}, False, True),
        ({"Sec-Fetch-Site": "same-site"}, False, True),  # another port of this machine
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, True, False),  # a link to the page
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, False, True),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, True, True),
        ({"Origin": "http://localhost:1", "Host": "localhost:1"}, False, False),
        ({"Origin": "http://evil.example", "Host": "localhost:1"}, False, True),
        ({"Origin": "null", "Host": "localhost:1"}, False, True),
    ],
)
def test_other_site_may_only_link_to_the_page(headers, top_page, elsewhere):
    assert AccessPolicy("127.0.0.1").is_cross_site(Headers(headers), top_page=top_page) is elsewhere
