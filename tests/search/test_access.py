"""Strangers' pages are kept out."""

from __future__ import annotations

import pytest
from werkzeug.datastructures import Headers

from sightword.search.serving import AccessPolicy, is_loopback


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
