"""Who may ask a page that is meant for one person on one machine.

Any web page that a person visits can make the browser ask ``http://127.0.0.1``. Three things keep it out: the name in
``Host`` must be this machine's (a foreign name may be made to point here: DNS rebinding), the browser's own word on
where a request comes from (``Sec-Fetch-Site``), and headers by which the browser keeps the answers to this page.
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
"""Of every answer: nothing from elsewhere is loaded, no script but the page's own runs, nobody frames it."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Decides which requests are answered.

    Args:
        host: where the server listens. On loopback only the loopback's own names are right. Elsewhere any IP address
            is, and the names of this machine: an address cannot be made to point elsewhere.
    """

    def __init__(self, host: str) -> None:
        self._only_loopback = is_loopback(host)
        self._names = {"localhost"}
        if not self._only_loopback:
            self._names |= {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}

    def knows(self, host: str | None) -> bool:
        """Whether the header ``Host`` names this machine."""
        try:
            name = urlsplit(f"//{host or ''}").hostname or ""
            int(urlsplit(f"//{host or ''}").port or 0)
        except ValueError:
            return False
        if "@" in (host or "") or "/" in (host or ""):
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._only_loopback

    def comes_from_elsewhere(self, headers: Headers, *, top_page: bool) -> bool:
        """Whether another site's page asks.

        Args:
            headers: of the request.
            top_page: it is the page itself that is asked for, which other sites may link to.
        """
        site = headers.get("Sec-Fetch-Site", "none")
        if site not in ("none", "same-origin"):
            return not (top_page and headers.get("Sec-Fetch-Mode") == "navigate")
        origin = headers.get("Origin")  # browsers send it with every POST
        return origin is not None and urlsplit(origin).netloc != headers.get("Host")
