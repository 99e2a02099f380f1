"""Lists the pictures of a folder, a tar or a bucket once, so that no picture costs a lookup of its own."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sightword.corpus.records import Caption, Image
from sightword.errors import CorpusError
from sightword.io.files import Pathish
from sightword.io.names import COARSE, Names
from sightword.messages import and_more, plural, warn_share
from sightword.places.place import Part, Place, read_listing
from sightword.places.tar import members

log = logging.getLogger(__name__)

PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
"""Endings of the names of picture files."""


@dataclass(frozen=True)
class Listing:
    """The relative POSIX paths of all files below ``folder``, or in a tar or a bucket."""

    folder: Path
    files: frozenset[str]
    misnamed: frozenset[str] = frozenset()
    """Files whose names are not UTF-8, so that no corpus can name them; each invalid byte is written as ``\\xe9``."""
    circular: frozenset[str] = frozenset()
    """Links among ``files`` that form a circle and cannot be followed."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """The places of files that do not lie loose in ``folder``, by name."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Files that cannot be used, such as a link in a tar, each with the fault."""
    unused: Mapping[str, str] = field(default_factory=dict)
    """Files that nothing reads, such as ``00000/*.cls`` in a shard, each with what they are."""
    records: tuple[Sequence[Image], Sequence[Caption]] | None = field(default=None, compare=False)
    """Pictures and captions of files that hold both; a picture without a place has no file."""

    def place(self, name: str) -> Place:
        """Return where a file is."""
        return self.places.get(name) or Place(f"{self.folder}/{name}")

    @cached_property
    def names(self) -> Names:
        """The names of ``files``."""
        return Names(self.files)


def list_pictures(folder: Pathish, *, required: bool) -> Listing | None:
    """List the files below ``folder``, in which linked folders are entered, each once.

    A broken or circular link counts as a file, and reading it fails later.

    Args:
        folder: a folder; or a plain ``.tar``, whose members are the files; or the listing ``.csv`` of a bucket.
        required: whether there must be one.

    Returns:
        None for a missing folder that is not required.

    Raises:
        CorpusError: a required folder does not exist, or a folder, tar or listing cannot be read.
    """
    root = Path(folder)
    if root.suffix == ".tar" and root.is_file():
        found = members(Place(str(root)), lambda _: False)
        if found.damage:
            todo = "Make the tar again, or fetch it again."
            raise CorpusError(found.damage, where=root, expected="a whole tar", todo=todo)
        spans = {name: Place(str(root), Part(*span)) for name, span in found.files.items()}
        return Listing(root, frozenset(spans), places=spans, damaged=found.faults)
    if root.suffix == ".csv" and root.is_file():
        objects = read_listing(root)
        return Listing(root, frozenset(objects), places=objects)
    if not root.is_dir():
        if not required:
            return None
        todo = "Put the pictures there or correct corpus.pictures; set corpus.require_pictures to false when the "
        todo += "features come precomputed."
        raise CorpusError("the folder of pictures does not exist", where=root, todo=todo)
    # whether the file is a circular link; macOS writes ._* beside the files
    files = {name: _is_folder(one) is None for name, one in walk(root, strict=True) if not one.name.startswith("._")}
    # Python represents the invalid bytes of file names as surrogates.
    misnamed = {name for name in files if any("\ud800" <= character <= "\udfff" for character in name)}
    return Listing(
        root,
        frozenset(files.keys() - misnamed),
        frozenset(os.fsencode(name).decode("utf-8", "backslashreplace") for name in misnamed),
        frozenset(name for name, circular in files.items() if circular and name not in misnamed),
    )


def walk(
    root: Path, enters: Callable[[str], bool] = lambda _: True, *, strict: bool = False, linked: bool = True
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the files below a folder, in which linked folders are entered after the others, each once.

    A link to a folder that holds it, or the root, is not entered.

    Args:
        root: the folder; files have their POSIX paths below it.
        enters: whether a folder below it is entered, by its path.
        strict: whether a folder that cannot be listed is a CorpusError; otherwise it is a warning.
        linked: whether linked folders are entered; otherwise a warning names them.
    """
    entered, top = set[str](), os.path.realpath(root)
    waiting, links, left = [""], list[str](), list[Path]()
    while waiting or links:
        inner = waiting.pop() if waiting else links.pop(0)
        if (real := os.path.realpath(root / inner)) in entered:
            continue
        entered.add(real)
        try:
            with os.scandir(root / inner) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if strict:
                raise CorpusError(f"cannot be listed ({error.strerror})", where=error.filename) from None
            log.warning("folder %s left out: %s", error.filename, error.strerror)
            continue
        for entry in found:
            path = f"{inner}{entry.name}"
            if not _is_folder(entry):
                yield path, entry
            elif enters(path) and not entry.is_symlink():
                waiting.append(f"{path}/")
            elif enters(path) and not linked:
                left.append(root / path)
            elif enters(path) and not any(Path(one).is_relative_to(Path(entry).resolve()) for one in (top, real)):
                links.append(f"{path}/")
    if left:
        why = "DVC does not see what changes behind a link to a folder. Move the folder there."
        log.warning("linked folders are not searched for tables and shards (%s): %s", and_more(left), why)


def _is_folder(entry: os.DirEntry[str]) -> bool | None:
    """Return whether the entry is a folder or a link to one; None for a circular link."""
    try:
        return entry.is_dir()
    except OSError as error:
        return None if error.errno == errno.ELOOP else False


def refuse_other_forms(missing: Sequence[str], others: Iterable[str], matched: Collection[str], where: object) -> None:
    """Raise CorpusError if missing names differ from other names, which nothing uses, in form only.

    A difference in folder or ending is a warning instead if it explains not even most of the missing names, or if most
    of the ``matched`` names have such another name too: the others are then copies.
    """
    names = Names(others)
    count, remark = names.remark(missing) if missing else (0, "")
    total, first = count, remark
    if count and matched and (2 * count <= len(missing) or 2 * names.remark(matched)[0] > len(matched)):
        count, remark = names.remark(missing, without=COARSE)
    if count:
        what = f"{plural(count, 'name')} of the corpus cannot be found, since another spelling is there: {remark}"
        todo = "Correct the names in the corpus, rename what is there, or take the pictures out of the corpus."
        raise CorpusError(what, where=where, todo=todo)
    warn_share(
        log, "corpus: of %d of %d missing names a similar one is there, the first: %s", total, len(missing), first
    )
