"""The page in a real browser: typing, clicking, keys, light and dark, small and large."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fork_server
import pytest
from browser import Browser
from pages_read import check_text
from search_world import EVIL, INJECTION

TILES = "document.querySelectorAll('.tile').length"
SOME = f"{TILES} === 24 && !document.querySelector('.old')"
READY = f"{SOME} && document.getElementById('status').textContent.includes('The best')"
FOUND = "document.getElementById('found').children.length === 10"
FOCUS = "document.activeElement"


@contextmanager
def served(world, *options: str) -> Iterator[str]:
    process = subprocess.Popen(
        [fork_server.python(), "-m", "pipeline.cli", "search", "models/encoder", "--serve", "--port", "0", *options],
        cwd=world.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            "SIGHTWORD_DEVICE": "cpu",
            "HOME": str(world.folder),
        },
    )
    try:
        yield re.search(r"http://\S+/", process.stdout.readline())[0]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def address(world) -> Iterator[str]:
    with served(world) as found:
        yield found


def fits(browser: Browser) -> bool:
    """Nothing is wider than the window: neither the page nor the sheet, nor any element that is to be seen."""
    return browser.overflow() == 0 and browser.run(
        "[...document.querySelectorAll('body *')].every(e => { const b = e.getBoundingClientRect();"
        "return b.width === 0 || e.closest('.unseen') || (b.left >= -1 && b.right <= innerWidth + 1); })"
    )


@pytest.mark.full
@pytest.mark.system
def test_typing_clicking_and_keys_alone(browser, address):
    for width, dark in ((1280, False), (390, True)):
        browser.look(width=width, height=844, dark=dark)
        browser.open(address)
        assert browser.run(f"{FOCUS}.id") == "query"
        browser.until(SOME)
        check_text(browser.run("document.documentElement.outerHTML"))
        assert fits(browser)
        browser.type("a red circle")
        browser.until("new URL(location).searchParams.get('q') === 'a red circle'")
        browser.until(READY)
        browser.until("[...document.querySelectorAll('.tile img')].every(i => i.complete)")
        assert browser.run("[...document.querySelectorAll('.tile img')].every(i => i.naturalWidth > 0)")
        assert fits(browser)

        browser.press("ArrowDown")
        first = browser.run(f"{FOCUS}.querySelector('img').alt")
        browser.press("ArrowRight")
        assert browser.run(f"[...document.querySelectorAll('.tile')].indexOf({FOCUS})") == 1
        browser.press("ArrowLeft")
        browser.press("Enter")
        browser.until(FOUND)
        assert browser.run("document.getElementById('own-list').firstChild.textContent") == first
        assert browser.run(f"document.getElementById('sheet').contains({FOCUS})")
        assert fits(browser)
        title = browser.run("document.getElementById('sheet-title').textContent")
        browser.press("ArrowRight")
        browser.until(f"document.getElementById('sheet-title').textContent !== {title!r}")
        browser.press("Escape")
        browser.until("!document.getElementById('sheet').open")
        assert browser.run(f"{FOCUS}.className") == "tile"
        browser.type("/")
        assert browser.run(f"{FOCUS}.id") == "query"
        background = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") is not dark
    assert not browser.errors


@pytest.mark.full
@pytest.mark.system
def test_a_click_shows_captions_and_a_caption_searches_again(browser, address):
    browser.open(f"{address}?q=a+red+circle")
    browser.until(READY)
    browser.click(".tile:not(.none)")
    browser.until(FOUND)
    caption = browser.run("document.querySelector('#found button span').textContent").removesuffix(" ✓")
    browser.click("#found button")
    browser.until(f"document.getElementById('query').value.replace(' .', '.') === {caption!r} && {READY}")
    assert not browser.run("document.getElementById('sheet').open")
    browser.run("history.back()")
    browser.until(f"document.getElementById('query').value === 'a red circle' && {READY}")
    assert not browser.errors


@pytest.mark.full
@pytest.mark.system
def test_an_attack_by_id_and_caption_stays_text(browser, address):
    browser.open(f"{address}?picture={EVIL}")
    browser.until(FOUND)
    assert browser.run("document.getElementById('own-list').firstChild.textContent") == INJECTION
    assert EVIL in browser.run("document.getElementById('sheet-title').textContent")
    assert browser.run("document.title").startswith("Search")
    assert browser.run("document.querySelectorAll('b, main script, dialog script, [onerror]').length") == 0
    # What the policy is for, should a caption ever get in as HTML.
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title = 1\">')")
    browser.until("true")
    assert browser.run("new Promise(done => setTimeout(() => done(document.title), 300))") != "1"


@pytest.mark.full
@pytest.mark.system
def test_a_dropped_picture_finds_captions_and_what_is_none_is_told(browser, address, world):
    browser.open(address)
    picture = base64.b64encode((world.files / "scene-008.png").read_bytes()).decode()
    drop = (
        "(() => {{ const files = new DataTransfer();"
        "const bytes = Uint8Array.from(atob('{data}'), c => c.charCodeAt(0));"
        "files.items.add(new File([bytes], '{name}'));"
        "dispatchEvent(new DragEvent('drop', {{dataTransfer: files, cancelable: true}})); }})()"
    )
    browser.run(drop.format(data=picture, name="mine.png"))
    browser.until(FOUND)
    assert browser.run("document.getElementById('sheet-title').textContent") == "mine.png"
    assert browser.run("document.querySelector('#sheet-picture img').naturalWidth") > 0
    assert browser.run("document.getElementById('own-list').children.length") == 2
    browser.press("Escape")
    browser.run(drop.format(data=base64.b64encode(b"<script>alert(1)</script>").decode(), name="<b>x</b>.html"))
    browser.until("document.getElementById('sheet-status').textContent.includes('cannot be used')")
    assert browser.run("document.getElementById('sheet-title').textContent") == "<b>x</b>.html"
    # Closed and opened again before the browser tells of the closing: what was opened last stays.
    again = drop.format(data=picture, name="again.png")
    browser.run(f"document.getElementById('sheet').close(); {again}")
    browser.until(FOUND)
    assert browser.run("document.getElementById('sheet-title').textContent") == "again.png"


@pytest.mark.full
@pytest.mark.system
def test_a_folder_fills_the_page_while_it_is_read(browser, world):
    with served(world, "--collection", "files") as address:
        browser.open(address + "?q=a+red+circle")
        browser.until(f"document.getElementById('count').textContent === '30 pictures' && {TILES} === 24")
        assert browser.run("document.getElementById('reading').hidden")
        assert browser.run("[...document.querySelectorAll('.tile img')].length") == 24
