"""Bytes of pictures, whole and damaged, in files and shards."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from sightword.images.shards import ResizedPicture, find_pictures, list_pictures


def tiff(samples: np.ndarray, *, order: str = "<", data: bytes | None = None, **tags: int | list[int] | None) -> bytes:
    """An uncompressed TIFF file of (height, width) or (height, width, samples); tags by ``tNUMBER``, None: left out."""
    height, width, *rest = samples.shape
    count = rest[0] if rest else 1
    if data is None:
        data = samples.astype(samples.dtype.newbyteorder(order)).tobytes()
    values: dict[int, int | list[int] | None] = {
        256: width, 257: height, 258: [samples.dtype.itemsize * 8] * count, 259: 1, 262: 1, 273: 8,
        277: count, 278: height, 279: len(data),
    }  # fmt: skip
    values |= {int(name[1:]): value for name, value in tags.items()}
    found = {tag: value if isinstance(value, list) else [value] for tag, value in values.items() if value is not None}
    start = 8 + len(data) + len(data) % 2
    entries, behind = b"", b""
    for tag, numbers in sorted(found.items()):
        packed = struct.pack(f"{order}{len(numbers)}H", *numbers)
        if len(packed) > 4:
            place = start + 2 + 12 * len(found) + 4 + len(behind)
            behind, packed = behind + packed, struct.pack(f"{order}I", place)
        entries += struct.pack(f"{order}HHI", tag, 3, len(numbers)) + packed.ljust(4, b"\0")
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", start)
    folder = struct.pack(f"{order}H", len(found)) + entries + bytes(4)
    return (head + data).ljust(start, b"\0") + folder + behind


def packed12(values: np.ndarray) -> bytes:
    """Two values of 12 bits in three bytes, rows without padding."""
    text = "".join(format(value, "012b") for value in values.ravel())
    return int(text, 2).to_bytes(len(text) // 8, "big")


def bmp(bgra: np.ndarray, *, header: int) -> bytes:
    """A BMP file of 32 bits with a mask of alpha: V3 (56 bytes of header), V4 (108) or V5 (124)."""
    height, width, _ = bgra.shape
    body = bgra[::-1].tobytes()
    info = struct.pack("<IiiHHIIiiII", header, width, height, 1, 32, 3, len(body), 0, 0, 0, 0)
    info += struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    return struct.pack("<2sIHHI", b"BM", 14 + header + len(body), 0, 0, 14 + header) + info.ljust(header, b"\0") + body


def chunk(kind: bytes, body: bytes) -> bytes:
    """A chunk of a PNG file."""
    return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")


def read_pictures(folder: Path) -> list[ResizedPicture]:
    """Return the pictures in the order of the shards."""
    return list(find_pictures(folder, [listed.image_id for listed in list_pictures(folder)]).values())
