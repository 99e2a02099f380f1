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

import pytest
from werkzeug.datastructures import Headers

from sightword.search.serving import AccessPolicy, is_loopback

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


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8377", "127.0.0.1:1", "127.9.9.9", "[::1]:8377", "[::1]"])
def test_the_loopbacks_own_names_are_right(host):
    assert AccessPolicy("127.0.0.1").names_this_machine(host)
    assert AccessPolicy("0.0.0.0").names_this_machine(host)


@pytest.mark.parametrize(
    "host",
    [
        None, "", "evil.example", "evil.example:8377", "127.0.0.1.evil.example", "localhost.evil.example",
        "localhost@evil.example", "evil.example#localhost", "localhost/", "[::1", "127.0.0.1:port", "2130706433",
        "0x7f.1", "127.0.0.1:99999999", "::1", "localhost evil", "\x00localhost",
    ],
)  # fmt: skip
def test_foreign_names_are_not(host):
    assert not AccessPolicy("127.0.0.1").names_this_machine(host)
    if host != "::1":
        assert not AccessPolicy("0.0.0.0").names_this_machine(host)


def test_addresses_of_a_network_are_right_only_where_one_listens_there():
    for host in ("192.0.2.7:8377", "[2001:db8::1]:8377", "0.0.0.0:8377"):
        assert not AccessPolicy("127.0.0.1").names_this_machine(host)
        assert AccessPolicy("0.0.0.0").names_this_machine(host)
    assert AccessPolicy("lab.example").names_this_machine("lab.example:8377")
    assert not AccessPolicy("lab.example").names_this_machine("evil.example:8377")


def test_loopback():
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "lab", "192.0.2.1")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip


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
def test_another_site_may_link_to_the_page_and_no_more(headers, top_page, elsewhere):
    assert AccessPolicy("127.0.0.1").is_cross_site(Headers(headers), top_page=top_page) is elsewhere
