"""The page of two runs in a real browser: nothing it complains of, tables that sort, pictures that load, any width."""

from __future__ import annotations

import pytest
from browser import Browser

from pipeline.comparison.contrast import contrast
from pipeline.comparison.page import write
from pipeline.comparison.runs import opened

pytestmark = [pytest.mark.full, pytest.mark.system]  # a browser is a package of the system


@pytest.fixture(scope="module")
def address(ran, tmp_path_factory) -> str:
    page = tmp_path_factory.mktemp("page") / "compare.html"
    with opened("good", "poor", ran.folder) as (a, b):
        write(contrast(a, b, project=ran.folder, samples=500), page)
    return page.as_uri()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_complaints_no_overflow_and_all_pictures(browser: Browser, address: str, width: int, *, dark: bool) -> None:
    browser.look(width=width, dark=dark)
    browser.open(address)
    browser.until("[...document.images].every(image => image.complete)")
    assert browser.run("document.images.length") == 40
    assert browser.run("[...document.images].every(image => image.naturalWidth > 0)")
    assert browser.overflow() == 0
    assert (
        browser.run("[...document.querySelectorAll('.plot svg')].map(one => one.getBoundingClientRect().height > 50)")
        == [True] * 4
    )
    assert browser.errors == []


def test_a_click_sorts_by_the_difference(browser: Browser, address: str) -> None:
    browser.look(width=1280)
    browser.open(address)
    browser.run("document.documentElement.style.scrollBehavior = 'auto'")
    cells = "[...document.querySelectorAll('.correlations tbody tr')].map(row => row.cells[5].textContent)"
    rows = f"{cells}.map(text => parseFloat(text.replace('−', '-')))"
    before = browser.run(rows)
    browser.click(".correlations thead th:nth-child(6) button")
    assert browser.run(rows) == sorted(before, reverse=True) != before


def test_a_click_sorts_small_p_and_words_too(browser: Browser, address: str) -> None:
    browser.look(width=1280)
    browser.open(address)
    browser.run("document.documentElement.style.scrollBehavior = 'auto'")
    column = "[...document.querySelectorAll('.correlations tbody tr')].map(row => row.cells[%d].textContent)"
    spelt = ["<0.0001", "0.5", "0.02", "0.0003"]
    for row, p in enumerate(spelt):
        browser.run(f"document.querySelectorAll('.correlations tbody tr')[{row}].cells[6].textContent = '{p}'")
    browser.click(".correlations thead th:nth-child(7) button")
    assert [p for p in browser.run(column % 6) if p in spelt] == ["0.5", "0.02", "0.0003", "<0.0001"]
    before = browser.run(column % 1)
    browser.click(".correlations thead th:nth-child(2) button")
    assert browser.run(column % 1) == sorted(before, reverse=True) != before
