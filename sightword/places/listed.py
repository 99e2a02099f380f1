"""The listing of a bucket: a table of names, sizes and versions, which is a stage's input in place of the objects."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from sightword.errors import CorpusError
from sightword.io.files import Pathish, atomic_file
from sightword.io.mapping import mapping
from sightword.io.tables import Table, whole
from sightword.messages import quote
from sightword.places.place import Part, Place, requests_at, split
from sightword.places.requests import PICTURES, WEB, Listed, Requests, without_credentials

COLUMNS = ("name", "address", "size", "version")
_TODO = "Write it with `sightword fetch ADDRESS --to FILE.csv`."
_TABLE = Table(COLUMNS, CorpusError, empty=("version",), separator=",", todo=_TODO)
_MOST_NUMBERS = 1_000_000
_RANGE = re.compile(r"\{(\d{1,18})\.\.(\d{1,18})\}")
_ADDRESS = re.compile(r"(s3|gs|az)://[^/@]+(/.*)?|https?://[^/@?]+/[^?]+")
"""Nothing secret: neither a password before the host, nor the signature of a web address after a question mark."""


def objects(addresses: Iterable[str]) -> dict[str, Place]:
    """Return the objects at addresses by name, sorted: the name is the address below the one that is given.

    Args:
        addresses: of a bucket with or without a prefix, all of whose objects are listed; or of one file of a web
            server, of which the last part is the name. ``{000..099}`` stands for all numbers of a range.

    Raises:
        CorpusError: an address is of another kind or has credentials in it, there is no object at one, or a name is
            that of two objects.
        PictureError: a server does not answer, or refuses.
        SetupError: the package for the protocol is not installed.
    """
    found: list[tuple[str, Place, str]] = []
    with tqdm(desc="list", unit="object", disable=None, leave=False) as bar:
        for address in (one for text in addresses for one in _numbered(text)):
            _check(address, None)
            before = len(found)
            for name, listed in _below(address):
                place = Place(_joined(address, name), Part(length=listed.size, version=listed.version or None))
                found.append((name or address.rpartition("/")[2], place, address))
                bar.update()
            if len(found) == before:
                what = "there is no object at this address"
                raise CorpusError(what, where=address, todo="Check the address; a bucket's prefix ends at a slash.")
    todo = "List one of the two, or a folder above both."
    return dict(sorted(mapping(found, "the name", "object", CorpusError, todo=todo).items()))


def write_listing(path: Pathish, places: dict[str, Place]) -> None:
    """Write a listing, by name; the same objects give the same bytes."""
    with atomic_file(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        file.write(",".join(COLUMNS) + "\n")
        for name, (address, part) in places.items():
            assert part is not None, "an object has a size"
            cells = (name, address, str(part.length), part.version or "")
            file.write(",".join(map(_cell, cells)) + "\n")


def read_listing(path: Pathish) -> dict[str, Place]:
    """Return the objects of a listing by name; CorpusError if the file is none."""
    found: list[tuple[str, Place, str]] = []
    for where, (name, address, count, version) in _TABLE.rows(Path(path)):
        _check(address, where)
        part = Part(length=whole(count, where, "size", CorpusError), version=version or None)
        found.append((name, Place(address, part), where))
    return mapping(found, "the name", "object", CorpusError, todo=_TODO)


def _below(address: str) -> Iterator[tuple[str, Listed]]:
    above, name = split(address)
    if above.startswith(tuple(f"{protocol}://" for protocol in WEB)):
        with contextlib.suppress(FileNotFoundError):
            yield "", requests_at(above).info(name)
        return
    found = Requests(address.rstrip("/"), PICTURES).tree()
    yield from ((name, listed) for name, listed in found.items() if listed.size)  # a console's folder has no bytes


def _check(address: str, where: str | None) -> None:
    if not _ADDRESS.fullmatch(address):
        expected = "s3://BUCKET/PREFIX, gs://, az:// or https://HOST/FILE, without credentials or a query"
        shown = without_credentials(address) + "?***" * ("?" in address)
        raise CorpusError(f"{quote(shown)} is no address", where=where, expected=expected)


def _joined(address: str, name: str) -> str:
    return f"{address.rstrip('/')}/{name}" if name else address


def _numbered(address: str) -> Iterator[str]:
    """Yield the addresses that ranges such as ``{000..099}`` stand for, at most a million of all ranges together."""
    parts = _RANGE.split(address)
    ranges = [range(int(first), int(last) + 1) for first, last in zip(parts[1::3], parts[2::3], strict=True)]
    count = math.prod(map(len, ranges))
    if not 0 < count <= _MOST_NUMBERS:
        what = f"its ranges of numbers stand for {count:,} addresses"
        raise CorpusError(what, where=address, expected=f"1 to {_MOST_NUMBERS:,}, such as {{000..099}}")
    for numbers in itertools.product(*ranges):
        texts = (f"{number:0{len(first)}d}" for number, first in zip(numbers, parts[1::3], strict=True))
        yield "".join(itertools.chain(*zip(parts[::3], [*texts, ""], strict=True)))


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if re.search('[",\\s]', text) else text
