"""What a template may show."""

from __future__ import annotations

import jinja2
import pytest
from visible_text import check_text, visible_text

from sightword.report import html_page


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    files = {"page.html": "", "macros.html": "{% macro source() %}{% endmacro %}", "page.css": "", "page.js": ""}
    monkeypatch.setattr(html_page, "_read", lambda _, name: files[name])
    return files


def test_render_macro_that_hides_a_value_is_refused(template: dict[str, str]) -> None:
    template["page.html"] = "{{ source }}, SNLI"
    assert html_page.render("any", source="A paper") == "A paper, SNLI"
    template["page.html"] = '{% from "macros.html" import source %}{{ source }}, SNLI'
    with pytest.raises(TypeError, match="not <Macro 'source'>"):
        html_page.render("any", source="A paper")


@pytest.mark.parametrize("value", [None, float("nan"), [1], len])
def test_render_value_that_is_no_text_is_refused(template: dict[str, str], value: object) -> None:
    template["page.html"] = "{{ value }}"
    with pytest.raises(TypeError, match="a page shows texts and numbers"):
        html_page.render("any", value=value)


def test_render_missing_value_is_refused(template: dict[str, str]) -> None:
    template["page.html"] = "{{ value }}"
    with pytest.raises(jinja2.UndefinedError, match="'value' is undefined"):
        html_page.render("any")


@pytest.mark.parametrize("inside", ["&lt;Macro 'x'&gt;", "None", "nan", "Undefined", "&lt;function f&gt;", "{{ x }}"])
def test_check_text_inside_of_a_program_fails(inside: str) -> None:
    words = "A nonesuch of a page for nannies."
    page = "<style>{{ None }}</style><p>" + words
    assert visible_text(page) == words
    check_text(page)
    with pytest.raises(AssertionError):
        check_text(f"{page} {inside}")
