"""Fetching of one published file, from its addresses to its place, and the preparation of some as in SentEval's script.

All work is done in a working folder beside the data set's, under a lock, and a whole file is moved into
its place: a killed or second process does no harm.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from pipeline.downloads.sources import Source
from sightword.errors import DownloadError
from sightword.io.files import loads, sha256_file, sync, write_text
from sightword.io.transfer import NoConnectionError, Patience, Resuming, UnreachableError, need_room, unpack, writing
from sightword.messages import and_more, without_credentials

log = logging.getLogger(__name__)

MANY = 100
"""Number of files above which the whole disk is synchronised."""


SNLI_PARTS = ("train", "dev", "test")

# MacIntyre's rules of the Penn Treebank (1995), in their order, which matters. They work on bytes, as sed's do.
_RULES: list[tuple[re.Pattern[bytes], bytes]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (rb'^"', rb"`` "),
        (rb'([ (\[{<])"', rb"\1 `` "),
        (rb"\.\.\.", rb" ... "),
        (rb"([,;:@#$%&])", rb" \1 "),
        (rb"([^.])(\.)([\])}>\"']*)[ \t]*$", rb"\1 \2\3 "),
        (rb"([?!])", rb" \1 "),
        (rb"([\]\[(){}<>])", rb" \1 "),
        (rb"--", rb" -- "),
        (rb"$", rb" "),
        (rb"^", rb" "),
        (rb'"', rb" '' "),
        (rb"([^'])' ", rb"\1 ' "),
        (rb"'([sSmMdD]) ", rb" '\1 "),
        *((b"'%b " % ending, b" '%b " % ending) for ending in (b"ll", b"re", b"ve")),
        (rb"n't ", rb" n't "),
        *((b"'%b " % ending, b" '%b " % ending) for ending in (b"LL", b"RE", b"VE")),
        (rb"N'T ", rb" N'T "),
        (rb" ([Cc])annot ", rb" \1an not "),
        (rb" ([Dd])'ye ", rb" \1' ye "),
        (rb" ([Gg])imme ", rb" \1im me "),
        (rb" ([Gg])onna ", rb" \1on na "),
        (rb" ([Gg])otta ", rb" \1ot ta "),
        (rb" ([Ll])emme ", rb" \1em me "),
        (rb" ([Mm])ore'n ", rb" \1ore 'n "),
        (rb" '([Tt])is ", rb" '\1 is "),
        (rb" '([Tt])was ", rb" '\1 was "),
        (rb" ([Ww])anna ", rb" \1an na "),
        (rb"  *", rb" "),
        (rb"^ *", rb""),
    ]
]


@dataclass(frozen=True)
class Order:
    """The options for the files of a data set."""

    name: str
    """The data set's name."""
    target: Path
    """The folder for its files."""
    mirror: str = ""
    """An address or a folder with ``data set/file``, which is tried first."""
    keep: bool = False
    """Keep archives after unpacking."""
    progress: bool = False
    """Draw bars on standard error."""
    patience: Patience = field(default_factory=Patience)
    unreached: set[str] = field(default_factory=set)
    """The beginnings of addresses, such as ``https://host``, to which there was no connection: not asked again."""

    @property
    def working(self) -> Path:
        """The folder of files being fetched or put there by a person: on the disk of the data set's folder."""
        target = self.target.resolve()
        beside = target.parent
        if target.is_dir() and target.stat().st_dev != beside.stat().st_dev:
            beside = target
        return beside / "downloads" / self.name

    def candidates(self, source: Source) -> list[str]:
        """Return the addresses to try, in order."""
        mirror = [f"{self.mirror.rstrip('/')}/{self.name}/{source.file}"] if self.mirror else []
        return mirror + source.urls


@dataclass(frozen=True)
class Outcome:
    """The result for one file, with the sha256 of the published file, if known, and the address that gave it."""

    state: Literal["there", "fetched", "to ask for"]
    sha256: str = ""
    address: str = ""
    checked: bool = False
    """Whether the sha256 (or the md5, or first digits) was compared with a known one."""


class _AnotherFileError(DownloadError):
    """A file has another size or hash than the known one."""


def fetch(source: Source, order: Order) -> Outcome:
    """Fetch a file, and put its wanted contents in place.

    DownloadError if no address gives the file, its hash or size is wrong, it is unsafe, or there is no room;
    NoConnectionError if there is no connection to any of its hosts.
    """
    with writing(order.working):
        order.working.mkdir(parents=True, exist_ok=True)
        ignore = order.working.parent / ".gitignore"
        if not ignore.exists():
            write_text(ignore, "*\n")
    with _locked(order.working / ".lock"):
        if not source.missing(order.target):
            if source.into or source.prepare:  # the published file is gone
                record = _record(file := order.working / source.file)
                return Outcome("there", "" if "removed" in record and file.is_file() else record.get("sha256", ""))
            return Outcome("there", _verified(source, order.target / source.to / source.file), checked=source.checked)
        for path in order.working.glob("*.unpacked"):  # of a killed process
            shutil.rmtree(path, ignore_errors=True)
        file = order.working / source.file
        record = _record(file)
        by_hand = file.is_file() and (not record or "removed" in record)
        if file.is_file():
            sha256, address = _verified(source, file), str(file) if by_hand else record.get("address", str(file))
        elif downloaded := _download(source, order, file):
            sha256, address = downloaded
        else:
            return Outcome("to ask for")
        keep = by_hand or order.keep
        _install(source, order, file, keep=keep)
        if not keep:
            file.unlink()
            write_text(_beside(file, ".json"), json.dumps({**_record(file), "removed": True}, indent=2) + "\n")
        _beside(file, ".wrong").unlink(missing_ok=True)
        return Outcome("fetched", sha256, address, source.checked)


def _download(source: Source, order: Order, file: Path) -> tuple[str, str] | None:
    """Return the sha256 of the downloaded file and its address; None for one that must be asked for, at no mirror."""
    reasons: list[str] = []
    kind: type[UnreachableError] = NoConnectionError
    if told := bool(order.unreached):  # the network may be missing: one attempt, and the caller tells of it once
        order = replace(order, patience=replace(order.patience, tries=2))
    addresses = order.candidates(source)
    for address in addresses:
        host = "/".join(address.split("/")[:3])
        if host in order.unreached:
            reasons.append(f"{address}: no connection")
            continue
        try:
            return _retrieve(address, source, order, file), without_credentials(address)
        except UnreachableError as error:
            reasons.append(str(error))
            missing = isinstance(error, NoConnectionError)
            if missing:
                order.unreached.add(host)
            else:
                kind = UnreachableError
            if (address != addresses[-1] or not source.urls) and not (told and missing):
                log.warning("%s", error)
    if not source.urls:
        return None
    what, where = f"could not be downloaded: {'; '.join(reasons)}", f"{order.name}/{source.file}"
    todo = f"Try again later, name a mirror (--mirror), or put it into {file.parent} yourself and run it again."
    raise kind(what, where=where, todo=todo)


def _retrieve(address: str, source: Source, order: Order, file: Path) -> str:
    """Download the file from one address, check and record it, and return its sha256."""
    part = _beside(file, ".part")
    size, checked, shown = source.size, source.checked, without_credentials(address)
    transfer = Resuming(part, size=size, checked=checked, progress=order.progress, patience=order.patience)
    while True:
        transfer.resumed = False
        transfer.fill(address)
        try:
            sha256 = _verified(source, part)
        except _AnotherFileError as error:
            wrong = _beside(file, ".wrong")
            if not transfer.resumed:
                os.replace(part, wrong)
            transfer.discard()
            if not transfer.resumed:
                raise UnreachableError(f"{error.what}, not {error.expected} (kept as {wrong})", where=address) from None
            # The received part may have been the beginning of another file.
            log.warning("%s: %s, after resuming an earlier part; once more from the start", shown, error.what)
            continue
        record = {"address": shown, "sha256": sha256, "size": part.stat().st_size}
        with writing(file):
            write_text(_beside(file, ".json"), json.dumps(record, indent=2) + "\n")
            os.replace(part, file)
        transfer.discard()
        return sha256


def _verified(source: Source, path: Path) -> str:
    """Return the sha256 of a file, or raise _AnotherFileError for another size or hash than the published one."""
    sha256 = sha256_file(path)
    kind, actual, wanted = "sha256", sha256, source.sha256
    if not wanted and source.md5:
        with open(path, "rb") as file:
            actual = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        kind, wanted = "md5", source.md5
    if source.size is not None and path.stat().st_size != source.size:
        what, expected = f"has {path.stat().st_size} bytes", str(source.size)
    elif not actual.startswith(wanted or source.begins):
        what, expected = f"has the {kind} {actual}", wanted or f"one that begins with {source.begins}"
    else:
        return sha256
    raise _AnotherFileError(what, where=path, expected=expected, todo="Delete it and fetch it again.")


def _install(source: Source, order: Order, file: Path, *, keep: bool) -> None:
    """Unpack and prepare out of sight, check that all files are there, and move them into place."""
    staged = _beside(file, ".unpacked")
    with writing(staged):
        staged.mkdir()
    try:
        if source.into:
            unpack(file, staged, source.into)
        else:
            goal = staged / source.to / source.file
            with writing(goal):
                goal.parent.mkdir(parents=True, exist_ok=True)
                try:
                    if keep or source.prepare:
                        raise OSError("the downloaded file stays as it is")
                    os.link(file, goal)
                except OSError:  # also a file system without links
                    need_room(goal.parent, file.stat().st_size)
                    shutil.copyfile(file, goal)
        if source.prepare:
            with writing(staged):
                PREPARATIONS[source.prepare](staged)
        if lacking := source.missing(staged):
            todo = "Delete it to fetch it again."
            raise DownloadError(f"does not hold {and_more(lacking)}", where=file, todo=todo)
        with writing(order.target):
            files = [path for path in staged.rglob("*") if path.is_file()]
            if len(files) > MANY:
                os.sync()
            else:
                for path in files:
                    sync(path)
            order.target.mkdir(parents=True, exist_ok=True)
            _move(staged, order.target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _move(staged: Path, target: Path) -> None:
    """Move the contents of a folder: a new folder in one step, into an existing one file by file."""
    for entry in sorted(staged.iterdir()):
        goal = target / entry.name
        if entry.is_dir() and goal.is_dir():
            _move(entry, goal)
            continue
        try:
            os.replace(entry, goal)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # A folder of the data set is a link to another disk.
            near = goal.with_name(f".{goal.name}.tmp")
            shutil.rmtree(near, ignore_errors=True)
            (shutil.copytree if entry.is_dir() else shutil.copyfile)(entry, near)
            os.replace(near, goal)


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


def _beside(file: Path, suffix: str) -> Path:
    """Return the place of a file's part, record or wrong version."""
    return file.with_name(file.name + suffix)


def _record(file: Path) -> dict[str, Any]:
    """Return the address, sha256 and size of a download, as far as they were recorded."""
    try:
        record = loads(_beside(file, ".json").read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def penn_treebank(line: bytes) -> bytes:
    """Return a sentence (without its line end) with spaces between its tokens, as SentEval's ``tokenizer.sed`` does."""
    for pattern, replacement in _RULES:
        line = pattern.sub(replacement, line)
    return line


def without_quotes(folder: Path) -> None:
    """Remove apostrophes and grave accents from every file, as the script does with TREC's questions."""
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes().translate(None, b"`'"))


def split_snli(folder: Path) -> None:
    """Split each ``snli_1.0_PART.txt`` below a folder into ``labels``, ``s1`` and ``s2``, and delete it.

    Pairs without an agreed label are left out. DownloadError if a part is missing, or not as published.
    """
    for part in SNLI_PARTS:
        files = sorted(folder.rglob(f"snli_1.0_{part}.txt"))
        if len(files) != 1:
            raise DownloadError(f"the archive has no snli_1.0_{part}.txt", where=folder)
        (file,) = files
        with (
            open(file, "rb") as lines,
            open(file.with_name(f"labels.{part}"), "wb") as labels,
            open(file.with_name(f"s1.{part}"), "wb") as first,
            open(file.with_name(f"s2.{part}"), "wb") as second,
        ):
            header = next(lines, b"").split(b"\t")
            if header[:1] != [b"gold_label"] or header[5:7] != [b"sentence1", b"sentence2"]:
                raise DownloadError("has no header of SNLI", where=file)
            for line in lines:
                columns = line.rstrip(b"\n").split(b"\t")
                if columns[0] == b"-":
                    continue
                if len(columns) < 7:
                    raise DownloadError(f"has a line of {len(columns)} columns", where=file)
                labels.write(columns[0] + b"\n")
                first.write(penn_treebank(columns[5]) + b"\n")
                second.write(penn_treebank(columns[6]) + b"\n")
        file.unlink()


PREPARATIONS: dict[str, Callable[[Path], None]] = {"quotes": without_quotes, "snli": split_snli}
