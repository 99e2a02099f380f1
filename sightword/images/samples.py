"""The meaning of a file's samples as the file states it: Pillow's mode has neither range nor bit depth.

Tags are those of TIFF 6.0; libtiff and other readers follow them.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping
from typing import Any

from PIL import Image

_BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER, _SAMPLES, _PLANES = 258, 259, 262, 266, 277, 284
_EXTRA, _FORMAT = 338, 339
_NAMES = {
    _BITS: "BitsPerSample",
    _COMPRESSION: "Compression",
    _PHOTOMETRIC: "PhotometricInterpretation",
    _SAMPLES: "SamplesPerPixel",
    _PLANES: "PlanarConfiguration",
    _EXTRA: "ExtraSamples",
    _FORMAT: "SampleFormat",
}
_FAX, _OLD_JPEG = (2, 3, 4), 6
_ALPHA = (1, 2)
"""ExtraSamples: associated and unassociated alpha."""
_NUMBERS = {1: "B", 3: "H", 4: "I"}
"""Types of a tag's values: bytes, 16 and 32 bits."""
_MOST_TAGS, _SHOWN = 1000, 8
_DEPTH = 24
"""Offset of the bit depth in a PNG file."""


def unsupported(picture: Image.Image, data: bytes) -> str | None:
    """Return why an opened file cannot become 8 bits without a guess, in words for the user; None if it can."""
    if picture.format == "PNG" and data[_DEPTH] == 16 and isinstance(picture.info.get("transparency"), tuple):
        return "its transparent colour has 16 bits, its decoded pixels have 8"
    tags = _tags(picture)
    if tags is None:
        return None
    bits = tags.get(_BITS, (1,))[0]
    if tags.get(_FORMAT, (1,))[0] == 2:
        return "signed samples have no agreed black and white"
    if bits == 32 and picture.mode == "I":
        return "samples of 32 bits have no agreed black and white"
    if _PHOTOMETRIC not in tags and tags.get(_COMPRESSION) not in (*_FAX, _OLD_JPEG):
        return "without the tag PhotometricInterpretation, 0 may be black or white"
    if tags.get(_PLANES) == 2 and tags.get(_COMPRESSION, 1) == 1:  # Pillow reads each plane as plain bytes
        plain = bits == 8 or (bits == 1 and tags.get(_SAMPLES, 1) == 1)
        if not plain or tags.get(_PHOTOMETRIC) not in (1, 2, 3, 5, 6) or tags.get(_FILL_ORDER, 1) != 1:
            return "samples of this kind in separate planes cannot be read without compression"
    return None


def grey_range(picture: Image.Image) -> tuple[int, int]:
    """Return the values of black and of white of a picture with more than 8 bits of grey."""
    tags = _tags(picture)
    if tags is None:  # Pillow scales the other formats to 16 bits
        return 0, 65535
    largest = 2 ** tags[_BITS][0] - 1
    return (largest, 0) if tags.get(_PHOTOMETRIC) == 0 else (0, largest)


def transparent_value(picture: Image.Image, data: bytes) -> Any:
    """Return the transparent grey, colour or palette entries, in the range of the pixels; None without them."""
    value = picture.info.get("transparency")
    if value is not None and picture.format == "PNG" and picture.mode == "L" and data[_DEPTH] < 8:
        return value * 255 // (2 ** data[_DEPTH] - 1)  # Pillow scales the pixels only
    return value


def has_certain_alpha(picture: Image.Image) -> bool:
    """Return whether a file states that its fourth sample is alpha; a BMP file's is often unused and zero."""
    tags = _tags(picture)
    return picture.format != "BMP" and (tags is None or any(kind in _ALPHA for kind in tags.get(_EXTRA, ())))


def describe_tiff(data: bytes) -> str:
    """Return the tags about the samples of a TIFF file that Pillow does not open, such as ``BitsPerSample 16 16``."""
    order, big = "<" if data.startswith(b"II") else ">", 43 in data[2:4]  # BigTIFF has the number 43, TIFF 42
    found = []
    with contextlib.suppress(struct.error, KeyError, OverflowError):  # damaged tags are left out
        (start,) = struct.unpack_from(f"{order}{'Q' if big else 'I'}", data, 8 if big else 4)
        (count,) = struct.unpack_from(f"{order}{'Q' if big else 'H'}", data, start)
        for index in range(min(count, _MOST_TAGS)):
            entry = start + (8 + 20 * index if big else 2 + 12 * index)
            tag, kind, length = struct.unpack_from(f"{order}HH{'Q' if big else 'I'}", data, entry)
            if tag not in _NAMES:
                continue
            values = f"{order}{min(length, _SHOWN)}{_NUMBERS[kind]}"
            place = entry + (12 if big else 8)
            if length * struct.calcsize(_NUMBERS[kind]) > (8 if big else 4):
                (place,) = struct.unpack_from(f"{order}{'Q' if big else 'I'}", data, place)
            numbers = " ".join(map(str, struct.unpack_from(values, data, place)))
            found.append(f"{_NAMES[tag]} {numbers}{' ..' if length > _SHOWN else ''}")
    return ", ".join(found)


def _tags(picture: Image.Image) -> Mapping[int, Any] | None:
    return picture.tag_v2 if picture.format == "TIFF" else None  # type: ignore[attr-defined]  # of that plugin only
