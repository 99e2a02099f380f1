"""The page in a real browser: nothing it complains of, tables that sort, pictures that load, any width."""

from __future__ import annotations

import pytest
from browser import Browser
from finished_run import write_run

from sightword.vse.page import page
from sightword.vse.page.settings import ReportSettings

pytestmark = [pytest.mark.full, pytest.mark.system]  # a browser is a package of the system
SEMANTICS = "table.semantics"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("run")
    page.write(write_run(folder), ReportSettings(), folder / "index.html")
    return (folder / "index.html").as_uri()


def opened(browser: Browser, address: str, *, width: int = 1280, dark: bool = False) -> None:
    browser.look(width=width, dark=dark)
    browser.open(address)
    browser.run("document.documentElement.style.scrollBehavior = 'auto'")  # no click while it moves


def column(browser: Browser, number: int, table: str = SEMANTICS) -> list[str]:
    """What stands in a column of a table, from top to bottom; group rows left out."""
    found: list[str] = browser.run(
        f"[...document.querySelectorAll('{table} tbody tr:not(.group)')]"
        f".map(row => row.cells[{number}].firstChild?.textContent.trim() ?? '')"
    )
    return found


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_complaints_no_overflow_and_all_pictures(browser: Browser, address: str, width: int, *, dark: bool) -> None:
    opened(browser, address, width=width, dark=dark)
    browser.until("[...document.images].every(image => image.complete)")
    assert browser.run("document.images.length") > 100
    assert browser.run("[...document.images].every(image => image.naturalWidth > 0)")
    assert browser.overflow() == 0
    assert browser.run("document.querySelectorAll('.plot svg').length") == 7
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert browser.run(
        "[...document.querySelectorAll('.plot svg')].every(one => one.getBoundingClientRect().height > 50)"
    )
    assert browser.errors == []


def test_a_click_sorts_all_rows_a_second_turns_them_a_third_puts_them_back(browser: Browser, address: str) -> None:
    opened(browser, address)
    before = column(browser, 1)
    button = f"{SEMANTICS} thead th:nth-child(2) button"
    head = f"document.querySelector('{SEMANTICS} thead th:nth-child(2)').getAttribute('aria-sort')"
    browser.click(button)
    assert column(browser, 1) == sorted(before, key=float, reverse=True)
    assert browser.run(head) == "descending"
    first = f"document.querySelector('{SEMANTICS} tbody tr:not(.group) th')"  # which set it is must still be said
    assert browser.run(f"getComputedStyle({first}, '::before').content + {first}.textContent") == '"STS15 "images'
    browser.click(button)
    assert column(browser, 1) == sorted(before, key=float)
    assert browser.run(head) == "ascending"
    browser.click(button)
    assert column(browser, 1) == before
    assert browser.run(head) is None


def test_on_paper_pictures_stand_and_arrows_do_not(browser: Browser, address: str) -> None:
    opened(browser, address, width=700, dark=True)  # about a sheet of paper
    browser.send("Emulation.setEmulatedMedia", media="print")
    columns = "getComputedStyle(document.querySelector('{}')).gridTemplateColumns.split(' ').length"
    assert browser.run(columns.format(".pair")) == 2
    assert browser.run(columns.format(".tiles")) == 10
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.querySelector('.sortable button'), '::after').display") == "none"
    assert browser.run("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    folded = "document.querySelector('.fold table').checkVisibility()"
    assert browser.run(folded)
    browser.send("Emulation.setEmulatedMedia", media="")
    assert not browser.run(folded)


def test_no_script_but_its_own_runs(browser: Browser, address: str) -> None:
    opened(browser, address)
    browser.run(
        "(() => { const one = document.createElement('script'); one.textContent = 'window.ran = true';"
        "document.body.append(one) })()"
    )
    assert browser.run("window.ran") is None
    assert any("Content Security Policy" in error for error in browser.errors)
