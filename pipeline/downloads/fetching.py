"""Fetching of one published file, from its addresses to its place.

All work is done in a working folder beside the data set's, under a lock, and a whole file is moved into
its place: a killed or second process does no harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from pipeline.downloads.placement import copy_file, place
from pipeline.downloads.preparation import PREPARATIONS
from pipeline.downloads.sources import Source
from pipeline.downloads.unpacking import unpack
from sightword.errors import DownloadError
from sightword.files import sha256_file, write_text
from sightword.text import and_more
from sightword.transfer import Patience, Resuming, UnreachableError, writing

log = logging.getLogger(__name__)

WORKING = "downloads"
"""The folder, beside those of data sets, of files being fetched, and of files that a person puts there."""


@dataclass(frozen=True)
class Order:
    """The options for the files of a data set."""

    name: str
    """The data set's name."""
    target: Path
    """The folder for its files."""
    pins: Mapping[str, str] = field(default_factory=dict)
    """The sha256 by ``data set/file`` that this laboratory wants; a pinned hash replaces a published one."""
    mirror: str = ""
    """An address or a folder with ``data set/file``, which is tried first."""
    again: bool = False
    """Fetch also files that are there."""
    keep: bool = False
    """Keep archives after unpacking."""
    progress: bool = False
    """Draw bars on standard error."""
    patience: Patience = field(default_factory=Patience)

    @property
    def working(self) -> Path:
        """The working folder: on the disk of the data set's folder, even if that is a link."""
        target = self.target.resolve()
        beside = target.parent
        if target.is_dir() and target.stat().st_dev != beside.stat().st_dev:
            beside = target
        return beside / WORKING / self.name

    def pin(self, source: Source) -> str:
        """Return the pinned sha256, or an empty text."""
        return self.pins.get(f"{self.name}/{source.file}", "")

    def size(self, source: Source) -> int | None:
        """Return the expected bytes; a pinned file may have another size than the published one."""
        return None if self.pin(source) else source.size

    def candidates(self, source: Source) -> list[str]:
        """Return the addresses to try, in order."""
        mirror = [f"{self.mirror.rstrip('/')}/{self.name}/{source.file}"] if self.mirror else []
        return mirror + source.urls


@dataclass(frozen=True)
class Outcome:
    """The result for one file."""

    state: Literal["there", "fetched", "to ask for"]
    sha256: str = ""
    """The sha256 of the published file, if known."""
    address: str = ""
    """The address that gave the file."""
    checked: bool = False
    """Whether the sha256 (or the md5, or first digits) was compared with a known one."""


def fetch(source: Source, order: Order) -> Outcome:
    """Fetch a file, and put its wanted contents in place.

    Args:
        source: the file.
        order: the options.

    Raises:
        DownloadError: no address gives the file, its hash or size is wrong, it is unsafe, or there is no room.
    """
    with writing(order.working):
        order.working.mkdir(parents=True, exist_ok=True)
        ignore = order.working.parent / ".gitignore"
        if not ignore.exists():
            write_text(ignore, "*\n")
    with _locked(order.working / ".lock"):
        if not order.again and not source.missing(order.target):
            return _as_found(source, order)
        _remove_leftovers(order.working)
        file = order.working / source.file
        by_hand = file.is_file() and not _record(file).is_file() and not _just_came(file)
        if file.is_file():
            sha256 = _verified(source, order, file)
            address = _read_record(file).get("address", str(file))
            if not by_hand:
                _part(file).unlink(missing_ok=True)
        else:
            if not order.candidates(source):
                return Outcome("to ask for")
            try:
                address = _download(source, order, file)
            except UnreachableError:
                if source.urls:
                    raise
                return Outcome("to ask for")
            sha256 = _verified(source, order, file)
        if not by_hand:
            record = {"address": address, "sha256": sha256, "size": file.stat().st_size}
            with writing(_record(file)):
                write_text(_record(file), json.dumps(record, indent=2) + "\n")
        keep = by_hand or order.keep
        _install(source, order, file, keep=keep)
        if not keep:
            file.unlink()
        _wrong(file).unlink(missing_ok=True)
        return Outcome("fetched", sha256, address, _is_known(source, order))


def _as_found(source: Source, order: Order) -> Outcome:
    """Return the result for a file that is there, with its hash if it is used as published."""
    if source.into or source.prepare:
        sha256 = _read_record(order.working / source.file).get("sha256", "")
        if sha256 and order.pin(source) not in ("", sha256):
            raise DownloadError(
                f"was made from a {source.file} with the sha256 {sha256}",
                where=order.target,
                expected=f"the pinned {order.pin(source)}",
                todo="Fetch it --again, or take the line out of the pinned hashes if this is the file you want.",
            )
        return Outcome("there", sha256)
    path = order.target / source.to / source.file
    return Outcome("there", _verified(source, order, path), checked=_is_known(source, order))


def _download(source: Source, order: Order, file: Path) -> str:
    """Download the file into the working folder, and return the address that gave it."""
    reasons: list[str] = []
    for address in order.candidates(source):
        if reasons:
            log.warning("%s", reasons[-1])
        for attempt in (1, 2):
            part = _part(file)
            transfer = Resuming(
                part,
                size=order.size(source),
                checked=_is_known(source, order),
                progress=order.progress,
                patience=order.patience,
            )
            try:
                _retrieve(address, source, order, file, transfer)
                transfer.discard()
                return address
            except UnreachableError as error:
                reasons.append(str(error))
                break
            except _OtherHashError as error:
                # The received part may have been the beginning of another file: once more, from the start.
                again = transfer.resumed and attempt == 1
                kept = ""
                if part.exists() and not again:
                    os.replace(part, _wrong(file))
                    kept = f" (kept as {_wrong(file)})"
                transfer.discard()
                if again:
                    log.warning("%s: %s, after resuming an earlier part; once more from the start", address, error)
                    continue
                reasons.append(f"{address}: {error}{kept}")
                break
    raise UnreachableError(
        f"could not be downloaded: {'; '.join(reasons)}",
        where=f"{order.name}/{source.file}",
        todo=f"Try again later, name a mirror (--mirror), or put it into {file.parent} yourself and run it again.",
    )


class _OtherHashError(Exception):
    """The file has a wrong hash."""


def _retrieve(address: str, source: Source, order: Order, file: Path, transfer: Resuming) -> None:
    import pooch

    pooch.get_logger().setLevel(logging.WARNING)  # its messages would repeat those of this module
    known = _known_hash(source, order)
    try:
        pooch.retrieve(address, known, fname=file.name, path=file.parent, downloader=transfer)
    except ValueError:  # pooch's error for a wrong hash
        algorithm, _, wanted = (known or "").partition(":")
        found = f" {pooch.file_hash(str(transfer.part), algorithm)}" if transfer.part.exists() else ""
        raise _OtherHashError(f"its {algorithm}{found} is not {wanted}") from None
    if not known and not (found := sha256_file(file)).startswith(source.begins):
        file.unlink()
        raise _OtherHashError(f"its sha256 {found} does not begin with {source.begins}")


def _known_hash(source: Source, order: Order) -> str | None:
    """Return the whole hash to compare with, in pooch's spelling: a pinned one before a published one."""
    sha256 = order.pin(source) or source.sha256
    return f"sha256:{sha256}" if sha256 else f"md5:{source.md5}" if source.md5 else None


def _is_known(source: Source, order: Order) -> bool:
    return bool(_known_hash(source, order) or source.begins)


def _verified(source: Source, order: Order, path: Path) -> str:
    """Return the sha256 of a file that is there, or raise DownloadError for a wrong size or hash."""
    size = order.size(source)
    if size is not None and path.stat().st_size != size:
        raise _another(path, f"has {path.stat().st_size} bytes", str(size), source, order)
    sha256, known = sha256_file(path), _known_hash(source, order)
    algorithm, _, wanted = (known or "").partition(":")
    found = sha256
    if algorithm == "md5":
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if known and found != wanted:
        raise _another(path, f"has the {algorithm} {found}", wanted, source, order)
    if not known and not sha256.startswith(source.begins):
        raise _another(path, f"has the sha256 {sha256}", f"one that begins with {source.begins}", source, order)
    return sha256


def _another(path: Path, what: str, expected: str, source: Source, order: Order) -> DownloadError:
    todo = (
        "Delete it and fetch it again, or take its line out of the pinned hashes if this is the file you want."
        if order.pin(source)
        else "Delete it and fetch it again, or pin its sha256 if this is the file you want."
    )
    return DownloadError(what, where=path, expected=expected, todo=todo)


def _install(source: Source, order: Order, file: Path, *, keep: bool) -> None:
    """Unpack and prepare out of sight, check that all files are there, and move them into place."""
    staged = file.with_name(file.name + ".unpacked")
    with writing(staged):
        staged.mkdir()
    try:
        if source.into:
            unpack(file, staged, source.into)
        else:
            goal = staged / source.to / source.file
            with writing(goal):
                goal.parent.mkdir(parents=True, exist_ok=True)
                copy_file(file, goal, link=not keep and not source.prepare)
        if source.prepare:
            with writing(staged):
                PREPARATIONS[source.prepare](staged)
        if lacking := source.missing(staged):
            todo = "Delete it to fetch it again."
            raise DownloadError(f"does not hold {and_more(lacking)}", where=file, todo=todo)
        with writing(order.target):
            place(staged, order.target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _remove_leftovers(working: Path) -> None:
    """Remove what a killed process left, except parts, which are resumed."""
    for path in [*working.glob("*.unpacked"), *working.glob("tmp????????")]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a data set, on which one process works at a time; the others wait."""
    lock = FileLock(path, thread_local=False)
    with writing(path):  # errors of work under the lock are other ones
        try:
            lock.acquire(blocking=False)
        except Timeout:
            log.warning("another process is fetching here (%s); waiting for it", path.parent)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _part(file: Path) -> Path:
    return file.with_name(file.name + ".part")


def _wrong(file: Path) -> Path:
    """Return the place of a download with a wrong hash."""
    return file.with_name(file.name + ".wrong")


def _just_came(file: Path) -> bool:
    """Return whether a process was killed between the download of the file and the record of its address."""
    part = _part(file)
    return part.exists() and part.samefile(file)


def _record(file: Path) -> Path:
    return file.with_name(file.name + ".json")


def _read_record(file: Path) -> dict[str, Any]:
    try:
        record = json.loads(_record(file).read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
