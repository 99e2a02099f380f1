"""Access control of a page that is meant for one person on one machine.

Any web page that a person visits can make the browser send requests to ``http://127.0.0.1``. Three checks refuse such
requests: ``Host`` must name this machine (DNS rebinding makes a foreign name point here), ``Sec-Fetch-Site`` must not
report another site, and the headers of every answer keep other pages from reading the answer.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from werkzeug.datastructures import Headers

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
