"""A disk that fails, or on which the process dies, at the n-th thing it is asked to do below one folder."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

MODES = ("raise", "die")
DEAD = 77
"""The exit code of a process that died on purpose."""


class FaultyDisk:
    """While in the context, operations on files below a folder are counted, and one of them goes wrong.

    Wrapped are the system calls that Python's own modules use to write: ``os.mkdir``, ``os.open``,
    ``os.close``, ``os.fsync``, ``os.chmod``, ``os.replace``, ``os.unlink``, ``os.utime``, and opening, writing
    (as the buffered file writes) and closing of files from ``open``.

    Args:
        folder: what lies elsewhere is not touched.
        at: the number, from 1, of the operation that goes wrong; 0 for none.
        mode: ``raise`` an ``OSError``, or ``die`` at once, with no clean-up.
        error: of the ``OSError``.
        after: the operation is done before it goes wrong, a write half.
        short: each write takes half of what it is given, as a write may.
        lasting: from then on every operation that needs room goes wrong.
        power: with the process the power goes. ``torn``: of each file only what was synced is there;
            ``lost``: and of each folder only the names that were there when it was synced (on Linux).
    """

    def __init__(
        self,
        folder: Path,
        *,
        at: int = 0,
        mode: str = "raise",
        error: int = errno.EIO,
        after: bool = False,
        short: bool = False,
        lasting: bool = False,
        power: str = "",
    ) -> None:
        assert mode in MODES
        assert power in ("", "torn", "lost")
        self.power = power
        self.folder = os.path.abspath(folder)
        self.at, self.mode, self.error, self.after, self.short, self.lasting = at, mode, error, after, short, lasting
        self.count = 0
        self.kinds: Counter[str] = Counter()
        """How often each operation was asked for."""
        self.struck: str | None = None
        """What went wrong."""
        self._synced: dict[int, bytes] = {}
        self._listed: dict[str, dict[str, int]] = {}
        self._patches: list[Any] = []
        self._descriptors: set[int] = set()

    def __enter__(self) -> FaultyDisk:
        self._real_open = builtins.open
        self._real = {name: getattr(os, name) for name in ("close", "fsync", "open", "unlink")}
        for name in ("mkdir", "chmod", "replace", "unlink", "utime"):
            self._patch(os, name, self._on_path(name, getattr(os, name)))
        self._patch(os, "open", self._os_open)
        self._patch(os, "close", self._on_descriptor("close", self._real["close"]))
        self._patch(os, "fsync", self._on_descriptor("fsync", self._sync))
        for module in (builtins, io):
            self._patch(module, "open", self._open)
        return self

    def __exit__(self, *_: object) -> None:
        while self._patches:
            self._patches.pop().stop()

    def _patch(self, owner: Any, name: str, new: Callable[..., Any]) -> None:
        patch = mock.patch.object(owner, name, new)
        patch.start()
        self._patches.append(patch)

    def mine(self, path: Any) -> bool:
        """Whether a path lies below the folder."""
        return isinstance(path, str | os.PathLike) and os.path.abspath(path).startswith(self.folder)

    def strike(self, name: str, do: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """Count an operation; do it, or let it go wrong."""
        self.count += 1
        self.kinds[name] += 1
        again = self.lasting and self.struck and name in ("mkdir", "open", "write", "os.open")
        if self.count != self.at and not again:
            return do()
        self.struck = self.struck or name
        # A descriptor is gone even when close fails; a file that could not be opened is not there.
        if name in ("close", "os.close") or (self.after and (self.mode == "die" or "open" not in name)):
            with contextlib.suppress(OSError):
                (half or do)()
        if self.mode == "die":
            if self.power:
                self._cut_power()
            os._exit(DEAD)
        raise OSError(self.error, os.strerror(self.error))

    def _on_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **options: Any) -> Any:
            if not self.mine(path):
                return real(path, *args, **options)
            return self.strike(name, lambda: real(path, *args, **options))

        return call

    def _os_open(self, path: Any, *args: Any, **options: Any) -> int:
        def do() -> int:
            descriptor: int = self._real["open"](path, *args, **options)
            if self.mine(path):
                self._descriptors.add(descriptor)
            return descriptor

        def half() -> None:
            self._real["close"](self._real["open"](path, *args, **options))

        return int(self.strike("os.open", do, half)) if self.mine(path) else do()

    def _on_descriptor(self, name: str, real: Callable[[int], Any]) -> Callable[[int], Any]:
        def call(descriptor: int) -> Any:
            if descriptor not in self._descriptors:
                return real(descriptor)
            if name == "close":
                self._descriptors.discard(descriptor)
            return self.strike(f"os.{name}", lambda: real(descriptor))

        return call

    def _sync(self, descriptor: int) -> None:
        self._real["fsync"](descriptor)
        if not self.power:
            return
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                self._listed[path] = {entry.name: entry.inode() for entry in entries if entry.is_file()}
        else:
            with self._real_open(path, "rb") as file:
                self._synced[os.fstat(descriptor).st_ino] = file.read()

    def _cut_power(self) -> None:
        for path, _, names in os.walk(self.folder):
            there = {name: os.stat(os.path.join(path, name)).st_ino for name in names}
            if self.power == "lost":
                for name in names:
                    self._real["unlink"](os.path.join(path, name))
                there = self._listed.get(path, {})
            for name, inode in there.items():
                with self._real_open(os.path.join(path, name), "wb") as file:
                    file.write(self._synced.get(inode, b""))

    def _open(self, path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if not self.mine(path) or not set(mode) & set("wax+"):
            return self._real_open(path, mode, *args, **options)
        assert "b" in mode, "the store writes bytes"
        raw = self.strike(
            "open", lambda: _Raw(self, path, mode.replace("b", "")), lambda: io.FileIO(path, mode).close()
        )
        self._descriptors.add(raw.fileno())
        if options.get("buffering") == 0:
            return raw
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)


class _Raw(io.FileIO):
    """The system calls below a buffered file."""

    def __init__(self, disk: FaultyDisk, path: Any, mode: str) -> None:
        self._disk: FaultyDisk | None = None  # FileIO closes itself when it cannot be opened
        super().__init__(path, mode)
        self._disk = disk

    def write(self, data: Any) -> int:
        assert self._disk
        view = memoryview(data).cast("B")
        some = view[: max(1, len(view) // 2)]
        write = super().write
        return int(self._disk.strike("write", lambda: write(some if self._disk.short else view), lambda: write(some)))

    def close(self) -> None:
        disk = self._disk
        if disk is None or self.closed:
            super().close()
            return
        disk._descriptors.discard(self.fileno())
        disk.strike("close", super().close)
