"""The shell of the HTML pages: one file that needs no network, no other file, and no script for reading."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from sightword.report import number_formats
from sightword.statistics import with_interval

if TYPE_CHECKING:
    from sightword.report.drawing import Drawing

_HERE = "sightword.report"


def render(package: str, **values: object) -> str:
    """Return the text of a page.

    The template is ``page.html`` in ``package``; it extends ``frame.html`` and uses ``macros.html``, which lie here.
    The style is the report's, followed by the ``page.css`` of another package. The page's policy allows one script,
    ``page.js``, which sorts tables and copies commands.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read(package if name == "page.html" else _HERE, name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_readable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    formats = ("correlation", "percent", "plain", "share")
    environment.filters |= {name: getattr(number_formats, name) for name in formats}
    environment.filters |= {"n": number_formats.count, "with_interval": with_interval}
    script = _read(_HERE, "page.js")
    return environment.get_template("page.html").render(
        style=Markup("".join(_read(room, "page.css") for room in dict.fromkeys((_HERE, package)))),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        **values,
    )


def inline(drawing: Drawing) -> Markup:
    """Return a drawing as markup for a page."""
    return Markup(drawing.in_page())  # noqa: S704 - escaped by its maker


def _readable(value: object) -> object:
    """Return a value that a template shows; TypeError for one that is no text for readers, such as a macro or None."""
    if not isinstance(value, str | int | float | jinja2.Undefined) or value != value:
        raise TypeError(f"a page shows texts and numbers, not {value!r:.80}")
    return value


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text("utf-8")
