"""A real Chromium without a window, driven by its DevTools protocol over two pipes: no other package is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Out of the way first: the pipes may be 3 and 4 themselves.
_AS_3_AND_4 = """
import os, sys
[os.dup2(int(number), place) for number, place in zip(sys.argv[1:3], (203, 204))]
os.dup2(203, 3), os.dup2(204, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def program() -> str | None:
    """The browser on this machine."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """A browser, and one page of it, which :meth:`renew` replaces.

    What the page writes to its console as an error, what it throws, and what it cannot load stands in ``errors``.

    Args:
        folder: for its profile.
    """

    def __init__(self, folder: Path, timeout: float = 60) -> None:
        found = program()
        assert found, "no Chromium on this machine"
        self.errors: list[str] = []
        self.timeout = timeout
        self._number = 0
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable, "-c", _AS_3_AND_4, str(to_read), str(to_write),
                found, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--hide-scrollbars", "--no-first-run", "--disable-extensions", "--disable-background-networking",
                "--remote-debugging-pipe",
                f"--user-data-dir={folder}", "about:blank",
            ],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        os.set_blocking(self._read, False)
        self._left = b""
        self._session: str | None = None
        self._context = ""

    def renew(self) -> None:
        """Open a page that knows nothing of the page before, and close that one."""
        self._session = None
        if self._context:
            self.send("Target.disposeBrowserContext", browserContextId=self._context)
        self._context = self.send("Target.createBrowserContext")["browserContextId"]
        page = self.send("Target.createTarget", url="about:blank", browserContextId=self._context)["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.errors.clear()
        self.look(width=1280)

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(30)
        os.close(self._write)
        os.close(self._read)

    def send(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol, and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:
            for answer in self._messages():
                if answer.get("id") == self._number:
                    assert "error" not in answer, (method, answer["error"])
                    return answer["result"]
                self._note(answer)
        raise TimeoutError(method)

    def _messages(self) -> list[dict[str, Any]]:
        try:
            part = os.read(self._read, 1 << 20)
        except BlockingIOError:
            assert self._process.poll() is None, "the browser has ended"
            time.sleep(0.01)
            return []
        self._left += part
        *whole, self._left = self._left.split(b"\0")
        return [json.loads(message) for message in whole]

    def _note(self, event: dict[str, Any]) -> None:
        method, what = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(what["exceptionDetails"].get("exception", what["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.errors.append(str([argument.get("value") for argument in what["args"]]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{what['entry']['text']} {what['entry'].get('url', '')}")

    def open(self, url: str) -> None:
        """Go there, and wait until all is loaded."""
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, expression: str) -> Any:
        """The value of some JavaScript; promises are awaited."""
        found = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, (expression, found["exceptionDetails"])
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait for some JavaScript to be true."""
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:
            if self.run(f"Boolean({expression})"):
                return
            time.sleep(0.02)
        raise TimeoutError(f"{expression}; the page says: {self.run('document.body.innerText')}; errors: {self.errors}")

    def type(self, text: str) -> None:
        """Letters, as a keyboard would send them to what has the focus."""
        for letter in text:
            self.send("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
            self.send("Input.dispatchKeyEvent", type="keyUp", key=letter)

    def press(self, key: str) -> None:
        """A key by its name, such as Enter, Tab, Escape, ArrowDown."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39}
        extra = {"text": "\r"} if key == "Enter" else {}
        same = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        self.send("Input.dispatchKeyEvent", type="keyDown", **same, **extra)
        self.send("Input.dispatchKeyEvent", type="keyUp", **same)

    def click(self, selector: str) -> None:
        """The middle of an element, with a mouse."""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}});"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def look(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """The size of the window, and what the person prefers."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        found: int = self.run("Math.max(0, document.documentElement.scrollWidth - innerWidth)")
        return found
