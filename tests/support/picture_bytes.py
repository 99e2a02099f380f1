"""Bytes of pictures, whole and damaged, in files and shards."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from sightword.images.shards import ResizedPicture, find_pictures, list_pictures


def saved(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    """A picture as a file of this kind."""
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


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
