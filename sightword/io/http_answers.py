"""Reads headers and errors of HTTP servers for downloads."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from sightword.messages import first_line

OLD = 60.0
"""Seconds since the last change after which a date identifies a file."""


def validator(headers: Mapping[str, str]) -> str | None:
    """Return the header that identifies a file to the byte; None without one (RFC 9110, section 13.1.5).

    That is a strong ETag; without an ETag, Last-Modified of a file that was older than a minute when it was sent: a
    file may change twice within a second, and clocks differ (RFC 9110, section 8.8.2.2).
    """
    tag, modified = headers.get("ETag"), headers.get("Last-Modified")
    if tag is not None:
        return tag if tag.startswith('"') else None
    try:
        age = parsedate_to_datetime(headers.get("Date", "")) - parsedate_to_datetime(modified or "")
    except (TypeError, ValueError):  # no date, a wrong one, or one without and one with a time zone
        return None
    return modified if age.total_seconds() >= OLD else None


def retry_after(value: str) -> float | None:
    """Return the seconds that a server asks to wait, from a number or a date (RFC 9110, section 10.2.3)."""
    if value.isdecimal():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
        return max(0.0, date.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def reason(error: Exception) -> str:
    """Return the innermost cause of an error of the network."""
    text = str(error)
    found = re.findall(r"\[Errno -?\d+\] ([^'\")\\]+)|(timed out)|(certificate verify failed)", text)
    return next(filter(None, found[-1])) if found else first_line(error)[:200]
