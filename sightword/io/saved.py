"""The format of all saved folders: a description in JSON with its schema, files, and ``SHA256SUMS`` of all of them.

``SHA256SUMS`` has the format of the program ``sha256sum``. A folder is read only if every listed file is the one that
was saved, and if each entry of the description has its type.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sightword.errors import EncoderError, SightwordError
from sightword.io.files import read_json, read_text, sha256_file, write_json, write_text
from sightword.io.json_records import TYPES
from sightword.messages import first_line, quote, short

SUMS = "SHA256SUMS"

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

    def write(self, place: Path, about: Mapping[str, Any], names: Sequence[str]) -> None:
        """Write the description and the sums of a folder whose other files are written; the same files give the same
        bytes. Files of an earlier folder of this place that are no part of the new one are deleted.

        Args:
            place: the folder.
            about: the entries of the description, without ``schema``.
            names: the other files, relative to the folder.
        """
        earlier = _sums(place) if (place / SUMS).is_file() else {}
        write_json(place / self.description, {"schema": self.schema, **about})
        listed = sorted({*names, self.description})
        write_text(place / SUMS, "".join(f"{sha256_file(place / name)}  {name}\n" for name in listed))
        for name in earlier.keys() - set(listed):
            if Path(name).name == name:
                (place / name).unlink(missing_ok=True)

    def read(self, place: Path) -> tuple[dict[str, Any], frozenset[str]]:
        """Return the description of a folder all of whose listed files were checked, and the names of these files.

        Raises:
            EncoderError: the folder is not whole, was changed, or has another version.
        """
        where = place / self.description
        with self.checked(place / SUMS):
            sums = _sums(place)
        self._check(place, self.description, sums)
        with self.checked(where):
            about = read_json(where)
        version = about.get("schema") if isinstance(about, dict) else None
        if type(version) is not int or version != self.schema:
            what, todo = "", self.todo
            if type(version) is int and version > self.schema:
                what, todo = ", from a newer Sightword", "Update Sightword."
            elif type(version) is int and version > 0:
                what, todo = ", from an earlier Sightword", "Run `dvc repro` in its project, or take a newer copy."
            raise EncoderError(
                f"has the format {quote(version)}{what}", where=where, expected=str(self.schema), todo=todo
            )
        for name in sums:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise EncoderError(f"lists {quote(name)}", where=place / SUMS, expected="files of the folder")
            self._check(place, name, sums)
        return about, frozenset(sums)

    @contextlib.contextmanager
    def checked(self, where: Path) -> Iterator[None]:
        """Turn errors about the content of a file into one message with the remedy.

        Raises:
            EncoderError: the file is damaged, as the error says.
        """
        try:
            yield
        except EncoderError:
            raise
        except SightwordError as error:
            raise EncoderError(
                error.what, where=error.where or where, expected=error.expected, todo=self.todo
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            raise EncoderError(f"is damaged ({first_line(error)})", where=where, todo=self.todo) from None

    def require(self, names: frozenset[str], *wanted: str, where: Path) -> None:
        """Refuse a folder whose sums lack a file that its description needs.

        Raises:
            EncoderError: a file is not listed.
        """
        for name in wanted:
            if name not in names:
                raise EncoderError(f"does not list {quote(name)}", where=where / SUMS, todo=self.todo)

    def _check(self, place: Path, name: str, sums: Mapping[str, str]) -> None:
        where = place / name
        if name not in sums and where.is_file():
            self.require(frozenset(sums), name, where=place)
        if not where.is_file():
            raise EncoderError("is missing", where=where, todo=self.todo)
        with self.checked(where):
            found = sha256_file(where)
        if found != sums[name]:
            files = shlex.join(sorted(sums))
            raise EncoderError(
                f"is not the file that was saved: its sha256 is {found}",
                where=where,
                expected=f"{quote(sums[name])[1:-1]}, as {SUMS} says",
                todo=f"{self.todo} If the change is intended, write the sums anew: `sha256sum {files} > {SUMS}`.",
            )


def _sums(place: Path) -> dict[str, str]:
    """Return the listed sha256 of each file."""
    lines = [line.split(maxsplit=1) for line in read_text(place / SUMS).split("\n")]
    return {line[1].lstrip("*"): line[0] for line in lines if len(line) == 2}


def entry(about: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind:
    """Return an entry of a description, which must have this type; a whole number counts as a number.

    Raises:
        ValueError: the entry is missing or has another type.
    """
    if name not in about:
        raise ValueError(f"it has no {name}")
    value = about[name]
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ValueError(f"{name} is {quote(value)}; expected {TYPES[kind]}")
    return value


def texts(about: Mapping[str, Any], name: str) -> list[str]:
    """Return an entry that is a list of texts.

    Raises:
        ValueError: the entry is missing or of another kind.
    """
    found = entry(about, name, list)
    if wrong := [one for one in found if not isinstance(one, str)]:
        raise ValueError(f"{name} has {quote(wrong[0])}; expected texts")
    return found


def as_folder(folder: object) -> Path:
    """Check a path that a user gave.

    Raises:
        EncoderError: the value is no path.
    """
    if isinstance(folder, str | os.PathLike):
        with contextlib.suppress(UnicodeEncodeError):
            if b"\0" not in os.fsencode(folder):
                return Path(folder)
    found = short(ascii(folder)) if isinstance(folder, str) else type(folder).__name__
    raise EncoderError(f"the folder is {found}", expected="the path of a folder")
