"""The format of all saved folders: a description in JSON with its schema, files, and ``SHA256SUMS`` of all of them.

``SHA256SUMS`` has the format of the program ``sha256sum``. A folder is read only if every listed file is the one that
was saved, if each entry of the description has its type, and if all numbers in it are finite.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sightword.errors import EncoderError, FileFormatError, SightwordError
from sightword.io.files import TYPES, atomic_file, mapping, read_json, read_text, sha256_file, write_json, write_text
from sightword.io.opening import LONGEST_NAME, is_inside
from sightword.messages import first_line, quote, short

SUMS = "SHA256SUMS"
TENSORS = ".safetensors"
_DEEPEST = 1000
_SHA256 = "[0-9a-f]" * 64

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Format:
    """The format of one kind of saved folder."""

    description: str
    """The name of the description, such as ``encoder.json``."""
    schema: int
    """The version of the format."""
    todo: str
    """How to get a whole folder, for messages."""
    error: type[SightwordError] = EncoderError
    """The class of the errors."""

    def write(self, place: Path, about: Mapping[str, Any], names: Sequence[str]) -> None:
        """Write the description and the sums of a folder whose other files, ``names``, are written.

        Files of an earlier folder of this place that are no part of the new one are deleted.
        """
        earlier = _sums(place) if (place / SUMS).is_file() else {}
        write_json(place / self.description, {"schema": self.schema, **about})
        listed = sorted({*names, self.description})
        write_text(place / SUMS, "".join(f"{sha256_file(place / name)}  {name}\n" for name in listed))
        for name in earlier.keys() - set(listed):
            if "/" not in name:
                with contextlib.suppress(FileFormatError):
                    inside(place, name).unlink(missing_ok=True)

    def read(self, place: Path) -> tuple[dict[str, Any], frozenset[str]]:
        """Return the entries of the description of a folder all of whose listed files were checked, and their names.

        SightwordError: of the class :attr:`error`: the folder is not whole, was changed, has another version,
        or a number in the description is not finite.
        """
        where = place / self.description
        with self.checked(place / SUMS):
            sums = _sums(place)
        self._check(place, self.description, sums)
        with self.checked(where):
            about = read_json(where)
        version = about.get("schema") if isinstance(about, dict) else None
        if type(version) is not int or version != self.schema:
            what, expected = f"has the format {quote(version)}", f"{self.schema}, of this Sightword"
            raise self.error(what, where=where, expected=expected, todo=self.todo)
        with self.checked(where):
            check_finite(about)
        for name in sums:
            self._check(place, name, sums)
        del about["schema"]
        return about, frozenset(sums)

    @contextlib.contextmanager
    def checked(self, where: Path) -> Iterator[None]:
        """Turn errors about the content of a file into one of the class :attr:`error`, with the remedy."""
        try:
            yield
        except EncoderError:
            raise
        except SightwordError as error:
            raise self.error(error.what, where=error.where or where, expected=error.expected, todo=self.todo) from None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self.error(f"is damaged ({first_line(error)})", where=where, todo=self.todo) from None

    def require(self, names: frozenset[str], *wanted: str, where: Path) -> None:
        """Refuse a folder whose sums lack a file that its description needs."""
        for name in wanted:
            if name not in names:
                raise self.error(f"does not list {quote(name)}", where=where / SUMS, todo=self.todo)

    def _check(self, place: Path, name: str, sums: Mapping[str, str]) -> None:
        with self.checked(place / SUMS):
            where = inside(place, name)
        if name not in sums and where.is_file():
            self.require(frozenset(sums), name, where=place)
        if not where.is_file():
            raise self.error("is missing", where=where, todo=self.todo)
        with self.checked(where):
            found = sha256_file(where)
        if found != sums[name]:
            expected = f"{quote(sums[name])[1:-1]}, as {SUMS} says"
            what = f"is not the file that was saved: its sha256 is {found}"
            raise self.error(what, where=where, expected=expected, todo=self.todo)


def write_summed(folder: Path, name: str, data: bytes) -> None:
    """Write ``NAME-SHA256.safetensors``, whole or not at all, then delete earlier files of this name: a file that says
    everything of a moment, no part of which can change alone.
    """
    path = folder / f"{name}-{hashlib.sha256(data).hexdigest()}{TENSORS}"
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)
    for other in folder.glob(f"{name}-{_SHA256}{TENSORS}"):
        if other != path:
            other.unlink(missing_ok=True)


def summed(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files of a name that :func:`write_summed` wrote, two of them if the process was killed meanwhile.

    FileFormatError if a file has another sha256 than its name says.
    """
    for path in sorted(folder.glob(f"{name}-{_SHA256}{TENSORS}")):
        if sha256_file(path) != path.stem.removeprefix(f"{name}-"):
            todo = f"Delete {folder}, and run the stage again."
            raise FileFormatError("is not the file that was saved: its sha256 is not its name's", where=path, todo=todo)
        yield path


def _sums(place: Path) -> dict[str, str]:
    """Return the listed sha256 of each file."""
    lines = [line.split(maxsplit=1) for line in read_text(place / SUMS).split("\n")]
    listed = [(line[1].lstrip("*"), line[0], place / SUMS) for line in lines if len(line) == 2]
    return mapping(listed, "the file", "sha256", FileFormatError, todo="Delete one of the two.")


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file that ``SHA256SUMS`` lists; FileFormatError if the name leads out of the folder, or no
    file can have it.
    """
    if not is_inside(name):
        expected = f"files of the folder, in names of at most {LONGEST_NAME} bytes"
        raise FileFormatError(f"lists {quote(name)}", where=folder / SUMS, expected=expected)
    return folder / name


def check_finite(value: Any, name: str = "") -> None:
    """Raise ValueError for NaN and infinity anywhere in the value of a JSON text."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}; expected a finite number")
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        check_finite(one, f"{name}.{key}" if name else str(key))


def entry(about: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind:
    """Return an entry of a description; ValueError if it is missing, of another type or not finite.

    A whole number counts as a number.
    """
    if name not in about:
        raise ValueError(f"it has no {name}")
    return typed(about[name], name, kind)


def typed(value: Any, name: str, kind: type[Kind]) -> Kind:
    """Return a value that must have this type, as :func:`entry` does."""
    if kind is float and type(value) is int and abs(value) < 1 << 1000:
        value = float(value)
    if type(value) is not kind:
        raise ValueError(f"{name} is {quote(value)}; expected {TYPES[kind]}")
    check_finite(value, name)
    return value


def texts(about: Mapping[str, Any], name: str) -> list[str]:
    """Return an entry that is a list of texts; ValueError if it is missing or of another kind."""
    values = entry(about, name, list)
    if wrong := [value for value in values if not isinstance(value, str)]:
        raise ValueError(f"{name} has {quote(wrong[0])}; expected texts")
    return values


def as_folder(folder: object, error: type[SightwordError] = EncoderError, kind: str = "folder") -> Path:
    """Return a path that a user gave, without ``~``; an error of the class ``error`` for no path, or one too long."""
    if isinstance(folder, str | os.PathLike):
        with contextlib.suppress(UnicodeEncodeError, TypeError, RuntimeError):  # the last: of an unknown ~user
            parts = os.fsencode(folder).split(b"/")
            if all(len(part) <= LONGEST_NAME and b"\0" not in part for part in parts) and len(parts) < _DEEPEST:
                return Path(folder).expanduser()
    found = short(ascii(str(folder))) if isinstance(folder, str | os.PathLike) else type(folder).__name__
    raise error(f"the {kind} is {found}", expected=f"the path of a {kind}")
