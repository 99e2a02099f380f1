"""Resizes pictures as torchvision's ``Resize`` does, and a corpus of files into shards and a table of rejects."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import logging
import os
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import pyarrow as pa
from filelock import FileLock
from PIL import Image, features
from tqdm import tqdm

from sightword.compute.processes import ordered_map
from sightword.errors import PictureError
from sightword.images.decode import Reject, RejectError, decode, read_picture
from sightword.images.encoding import encode, hash_pixels
from sightword.images.settings import Interpolation, ResizeSettings, Size
from sightword.images.shards import ResizedPicture, shard_of, shard_path, write_shard
from sightword.io.files import Pathish, atomic_folder, canonical_json, read_json, read_table, write_json, write_table
from sightword.io.modules import hash_sources
from sightword.machine import is_address
from sightword.messages import and_more
from sightword.places.place import PARTS, Part, Place, copy

log = logging.getLogger(__name__)

SHOWN = 5
"""The number of rejected pictures that a message names."""

BATCH = 8
"""The number of pictures that a worker takes at a time."""

ALONE = 5.0
"""Seconds of decoding in this process before others start, each of which takes most of a second."""

_PASSING = {"missing", "unreadable", "not_a_file"}
"""Reasons that may be gone in the next run."""
_REJECT_COLUMNS = ("image_id", "reason", "detail")


@dataclass(frozen=True)
class Source:
    """A picture of the corpus: its id, its file or address (None without a file), and the part that is the picture."""

    image_id: str
    path: str | None
    part: Part | None = None


@dataclass(frozen=True)
class Summary:
    """The result of :func:`write_resized`."""

    pictures: int
    rejects: list[Reject]


def resized_size(width: int, height: int, size: Size) -> tuple[int, int]:
    """Return width and height after the smaller of them becomes ``size``, or after they become a given size.

    The longer side is ``int(size * long / short)``: truncated, not rounded.
    """
    if not isinstance(size, int):
        return size[1], size[0]
    if width <= height:
        return size, int(size * height / width)
    return int(size * width / height), size


def resize(picture: Image.Image, *, size: Size, interpolation: Interpolation, max_pixels: int) -> Image.Image:
    """Scale a picture until its smaller side is ``size``, or to a height and a width; RejectError ``too_large``."""
    width, height = resized_size(*picture.size, size)
    if width * height > max_pixels:
        was = f"{picture.width} x {picture.height}"
        raise RejectError("too_large", f"{was} would become {width} x {height}, {max_pixels} pixels allowed")
    return picture.resize((width, height), Image.Resampling[interpolation.upper()])


def resize_file(source: Source, settings: ResizeSettings) -> ResizedPicture | Reject:
    """Read, decode, resize and encode one picture file; an unusable one becomes a :class:`Reject`."""
    return _resized(source, _fetched(source, settings), settings)


def resize_batch(sources: Sequence[Source], settings: ResizeSettings) -> list[ResizedPicture | Reject]:
    """Resize as :func:`resize_file`; objects of a bucket are asked for side by side."""
    if len(sources) > 1 and any(is_address(source.path or "") for source in sources):
        with ThreadPoolExecutor(len(sources), thread_name_prefix="objects") as pool:
            found = [*pool.map(functools.partial(_fetched, settings=settings), sources)]
    else:
        found = [_fetched(source, settings) for source in sources]
    return [_resized(source, one, settings) for source, one in zip(sources, found, strict=True)]


def _resized(source: Source, data: bytes | Reject, settings: ResizeSettings) -> ResizedPicture | Reject:
    if isinstance(data, Reject):
        return data
    try:
        picture = decode(data, exif=settings.exif, max_pixels=settings.max_pixels)
        kind, largest = settings.interpolation, settings.max_pixels
        picture = resize(picture, size=settings.size, interpolation=kind, max_pixels=largest)
    except RejectError as error:
        return Reject(source.image_id, error.reason, error.detail)
    hashes = hashlib.sha256(data).hexdigest(), hash_pixels(picture.tobytes(), *picture.size)
    return ResizedPicture(source.image_id, *hashes, *picture.size, *encode(picture, settings.encoding))


@functools.cache
def decoder() -> str:
    """Return the sha256 of the code of this room and the versions of the libraries that make pixels of files."""
    folder = Path(__file__).parent
    own = hash_sources(folder, (path.name for path in folder.glob("*.py")))
    codecs = {name: features.version(name) for name in ("pil", "jpg", "jpg_2000", "zlib", "webp", "avif")}
    return hashlib.sha256(canonical_json([own, codecs, metadata.version("simplejpeg")]).encode()).hexdigest()


def _fetched(source: Source, settings: ResizeSettings) -> bytes | Reject:
    try:
        if source.path is None:
            raise RejectError("missing", "the corpus names no file for it")
        return read_picture(Place(source.path, source.part), max_pixels=settings.max_pixels)
    except RejectError as error:
        return Reject(source.image_id, error.reason, error.detail)


def write_resized(
    folder: Pathish, sources: Sequence[Source], settings: ResizeSettings, *, workers: int = 0, progress: bool = False
) -> Summary:
    """Resize a corpus into a folder of shards and ``rejects.parquet``, which appears complete or not at all.

    A corpus without any file (as with precomputed features) gives empty shards. The bytes do not depend on the order of
    ``sources`` or on ``workers``, the processes that decode after :data:`ALONE`. The shards of a run that ended early
    are kept in ``folder.tmp``, and the next run goes on with them.

    Raises:
        PictureError: more pictures are rejected than ``max_rejects`` allows.
    """
    if all(source.path is None for source in sources):
        sources = []
    stamps = {path: _stamp(path) for path in {source.path for source in sources}}
    absent = [source for source in sources if stamps[source.path] is None]
    missing = [Reject(one.image_id, "missing", f"there is no {one.path or 'file named'}") for one in absent]
    _check_count(missing, settings, " The other pictures were not checked yet.")
    with _unfinished(Path(f"{Path(folder)}.tmp")) as kept, atomic_folder(folder) as temporary:
        ordered = sorted(sources, key=lambda source: (shard_of(source.image_id, settings.shards), source.image_id))
        by_shard = itertools.groupby(ordered, key=lambda source: shard_of(source.image_id, settings.shards))
        shards = {shard: [*rows] for shard, rows in by_shard}
        files = {shard: kept / _name(rows, stamps, settings) for shard, rows in shards.items()}
        done = {shard for shard, file in files.items() if file.exists() and file.with_suffix(".json").exists()}
        rejects = [Reject(*row) for shard in done for row in read_json(files[shard].with_suffix(".json"))]
        rest = [source for shard, rows in shards.items() if shard not in done for source in rows]
        rest = copied(rest, kept, settings, progress=progress)
        batches = [rest[start : start + BATCH] for start in range(0, len(rest), BATCH)]
        resizing = functools.partial(resize_batch, settings=settings)
        results = itertools.chain.from_iterable(ordered_map(resizing, batches, workers=workers, alone=ALONE))
        bar = tqdm(results, total=len(rest), desc="resize", unit="picture", disable=None if progress else True)
        good = _without_rejects(bar, rejects)
        for shard, pictures in itertools.groupby(good, key=lambda one: shard_of(one.image_id, settings.shards)):
            write_shard(shard_path(temporary, shard), pictures, settings.transform)
            own = [[*vars(one).values()] for one in rejects if shard_of(one.image_id, settings.shards) == shard]
            if not _PASSING.intersection(reason for _, reason, _ in own):
                write_json(files[shard].with_suffix(".json"), own)
                os.replace(shard_path(temporary, shard), files[shard])
                done.add(shard)
        _check_count(rejects, settings)
        for shard in done:
            with contextlib.suppress(OSError):  # a file system without links
                os.link(files[shard], shard_path(temporary, shard))
            if not shard_path(temporary, shard).exists():
                os.replace(files[shard], shard_path(temporary, shard))
        for shard in range(settings.shards):
            if not shard_path(temporary, shard).exists():
                write_shard(shard_path(temporary, shard), [], settings.transform)
        schema = pa.schema([(name, pa.string()) for name in _REJECT_COLUMNS])
        write_table(temporary / "rejects.parquet", pa.Table.from_pylist([*map(asdict, rejects)], schema))
    return Summary(len(sources) - len(rejects), rejects)


@contextlib.contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """Yield the folder for what the next run can use, or a new one while another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock", timeout=0)
    try:
        lock.acquire()
    # Another process holds the lock (Timeout is an OSError), or none is to be had: on a file system without locks
    # filelock raises NotImplementedError. On a full disk the folder below fails too, and its error reaches the user.
    except (OSError, NotImplementedError):
        with tempfile.TemporaryDirectory(".tmp", f"{folder.stem}.", folder.parent) as other:
            yield Path(other)
        return
    try:
        yield folder
        shutil.rmtree(folder, ignore_errors=True)  # NFS keeps the name of an open file
    finally:
        for name in ("rows", "lock"):  # the next run copies rows again
            with contextlib.suppress(OSError):
                (folder / name).unlink()
        lock.release()
        with contextlib.suppress(OSError):
            folder.rmdir()


def _name(sources: Sequence[Source], stamps: Mapping[str | None, object], settings: ResizeSettings) -> str:
    """Return the name of a kept shard: a hash of all that its bytes depend on."""
    unsure = any(is_address(one.path or "") and not (one.part and one.part.version) for one in sources)
    makers = [decoder(), pa.__version__, settings.model_dump(exclude={"max_rejects"}), unsure and secrets.token_hex(8)]
    rows = [[source.image_id, source.path, source.part, stamps[source.path]] for source in sources]
    return hashlib.sha256(canonical_json([makers, rows]).encode()).hexdigest()[:32] + ".parquet"


def copied(sources: list[Source], folder: Path, settings: ResizeSettings, *, progress: bool = False) -> list[Source]:
    """Return sources in which tars and Parquet files of a bucket are copies in a folder, as are all rows, in one file.

    They are copied in the order of their file, since pictures are resized in another one. What is missing stays.
    """

    @functools.cache
    def local(address: str, version: str) -> str:
        file = folder / hashlib.sha256(f"{address} {version}".encode()).hexdigest()[:32]
        with contextlib.suppress(FileNotFoundError):
            copy(address, version, ends[address], file)
            return str(file)
        return address

    found, wanted, ends = [*sources], [], Counter[str]()
    for at, (path, part) in enumerate((one.path or "", one.part or Part()) for one in sources):
        if part.row is not None or (is_address(path) and part.offset is not None):
            wanted.append((path, part.version or "", -1 if part.row is None else part.row, at))
            ends[path] = max(ends[path], (part.offset or 0) + (part.length or 0))
    if not wanted:
        return sources
    folder.mkdir(exist_ok=True)
    with open(folder / "rows", "wb") as rows:
        bar = tqdm(sorted(wanted), desc="copy", unit="picture", disable=None if progress else True)
        for path, version, row, at in bar:
            part = (sources[at].part or Part())._replace(version=None)
            found[at] = Source(sources[at].image_id, local(path, version) if is_address(path) else path, part)
            if row >= 0 and not isinstance(data := _fetched(found[at], settings), Reject):
                found[at] = Source(found[at].image_id, rows.name, Part(offset=rows.tell(), length=rows.write(data)))
    return found


def read_rejects(folder: Pathish) -> list[Reject]:
    """Return the rejected pictures of a folder; FileFormatError without a readable ``rejects.parquet``."""
    table = read_table(Path(folder) / "rejects.parquet", _REJECT_COLUMNS, todo="Run the stage resize first.")
    return [Reject(*row.values()) for row in table.to_pylist()]


def corpus_sources(images: Pathish) -> list[Source]:
    """Return the pictures of ``images.parquet`` with their files; FileFormatError if the table cannot be read."""
    table = read_table(images, ["image_id", "path"], optional=PARTS, todo="Run the stage corpus first.")
    rows = (row for batch in table.to_batches(10_000) for row in batch.to_pylist())
    parts = ((row, Part(*map(row.get, PARTS))) for row in rows)
    return [Source(row["image_id"], row["path"], None if part == Part() else part) for row, part in parts]


def _stamp(path: str | None) -> list[int] | None:
    """Return the size and the time of change of a file, nothing of an object; None if the file is missing."""
    try:
        state = Path(path).stat() if path and not is_address(path) else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return []  # the file exists; reading it shows the problem
    return [state.st_size, state.st_mtime_ns] if state else None if path is None else []


def _without_rejects(results: Iterable[ResizedPicture | Reject], rejects: list[Reject]) -> Iterator[ResizedPicture]:
    for result in results:
        if isinstance(result, Reject):
            log.warning("picture %s rejected: %s (%s)", result.image_id, result.reason, result.detail)
            rejects.append(result)
        else:
            yield result


def _check_count(rejects: list[Reject], settings: ResizeSettings, so_far: str = "") -> None:
    """Sort the rejects by id, and raise PictureError if they are too many."""
    rejects.sort(key=lambda reject: reject.image_id)
    if len(rejects) <= settings.max_rejects:
        return
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(r.reason for r in rejects).items()))
    first = and_more((f"{one.image_id} ({one.reason}: {one.detail})" for one in rejects), SHOWN, between="; ")
    what = f"{len(rejects)} {'picture' if len(rejects) == 1 else 'pictures'} cannot be used ({reasons}): {first}"
    expected = f"at most resize.max_rejects = {settings.max_rejects}"
    raise PictureError(what, expected=expected, todo=f"Replace or remove these files, or allow more rejects.{so_far}")
