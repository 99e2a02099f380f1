"""Connections that say nothing, or send a picture byte by byte, keep nobody else out of the page."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

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


def test_120_silent_connections_and_slow_uploads_keep_nobody_out_and_are_closed_in_silence():
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
