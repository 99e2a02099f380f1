"""Decodes any picture file to RGB pixels, or returns a reason for the rejection.

Decoders silently invent missing pixels. So simplejpeg, another build of libjpeg-turbo, decodes a JPEG file and reports
the first warning, which Pillow drops; without a warning the pixels are Pillow's, which need not decode the file again.
A PNG's unpacked bytes are counted.
"""

from __future__ import annotations

import errno
import io
import itertools
import os
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import simplejpeg
from PIL import Image, ImageOps, UnidentifiedImageError

from sightword.errors import PictureError
from sightword.io.files import Pathish
from sightword.io.opening import ForeignError, check_kind
from sightword.places import place as places
from sightword.places.place import Place

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "PPM", "JPEG2000", "AVIF")
"""Pillow's names of the accepted formats. EPS is not accepted, since Pillow would start Ghostscript; TIFF neither,
since Pillow's mode has neither range nor bit depth of its samples, and libtiff goes on after some errors."""

Reason = Literal["missing", "unreadable", "not_a_file", "empty", "not_a_picture", "truncated", "incomplete", "damaged",
                 "too_large", "unsupported_mode", "invisible"]  # fmt: skip
"""The reasons for a rejection; ``docs/features.md`` explains each to users."""

# The errors that Pillow's decoders raise on damaged files, as found with truncated and garbled files.
_DECODER_ERRORS = (OSError, SyntaxError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
                   RuntimeError, EOFError, struct.error, zlib.error)  # fmt: skip
# Of these, the ones of Python, whose messages say nothing of the picture; Pillow raises some again as a SyntaxError.
_INTERNAL = (LookupError, TypeError, AttributeError, ArithmeticError, EOFError, struct.error)
# Messages of Pillow for whole files of a kind that they do not decode.
_UNSUPPORTED = re.compile(
    "(?i)unsupported|not yet supported|not configured|cannot handle|unable to determine|unknown raw mode"
    "|samples per pixel"
)
_DEPTH = 24
"""Offset of the bit depth in a PNG file."""

PADDING = 16
"""The most bytes of padding after the data of a JPEG's last pixel; most damage leaves more bytes."""
HOLE = 64
"""Length of a run of zeros that valid entropy-coded data cannot contain when the all-zero code is a coefficient."""
HOLE_IN_PROGRESSIVE = 512
"""The same for the coefficients (not the block averages) of progressive JPEGs, whose raw bits may also be zeros."""

_REJECTED = re.compile(
    r"Premature end of JPEG file"
    r"|Corrupt JPEG data: (?:premature end of data segment|bad (?:Huffman|arithmetic) code|found marker .*)"
    r"|Corrupt JPEG data: (?P<count>\d+) extraneous bytes before marker 0x(?P<marker>..)"
)
# 0xff in the data of a scan is followed by 0; restart markers (d0 to d7) belong to the scan.
_MARKER = re.compile(rb"\xff([\x01-\xcf\xd8-\xfe])", re.DOTALL)
_EOI, _SOS, _DHT = 0xD9, 0xDA, 0xC4
_BARE = frozenset([0x01, 0xD8, _EOI])  # markers without a length
_NOTES = frozenset([*range(0xE0, 0xF0), 0xFE])  # segments of applications, comments
_FRAMES = frozenset(range(0xC0, 0xD0)) - {_DHT, 0xC8, 0xCC}
_PROGRESSIVE = frozenset([0xC2, 0xC6, 0xCA, 0xCE])

_ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
"""The passes of an interlaced PNG: first column, first row, steps (PNG specification, section 8.2)."""
_AT_A_TIME = 1 << 14
"""Bytes to unpack at a time, which give 17 MB at most."""


class RejectError(PictureError):
    """One picture cannot be used."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.reason: Reason = reason
        self.detail = detail
        """An explanation for people, without paths."""
        super().__init__(f"{reason}: {detail}")


@dataclass(frozen=True)
class Reject:
    """A row of ``rejects.parquet``."""

    image_id: str
    reason: str
    detail: str


def read_file(path: Pathish, *, max_pixels: int) -> bytes:
    """Return the bytes of a picture file, following symbolic links; errors as :func:`read_picture`."""
    return read_picture(Place(os.fspath(path)), max_pixels=max_pixels)


def read_picture(place: Place, *, max_pixels: int) -> bytes:
    """Return the bytes of a picture, wherever they are.

    Raises:
        RejectError: ``missing``, ``unreadable``, ``not_a_file``, ``empty`` or ``too_large``.
        PictureError: an object changed since it was listed, or its server does not answer.
    """
    try:
        data = places.read(place, 8 * max_pixels + (1 << 20))
    except places.TooLargeError as error:
        raise RejectError("too_large", f"the file has {error.size} bytes") from None
    except places.NotAFileError as error:
        raise RejectError("not_a_file", str(error.strerror)) from None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise RejectError("missing", "there is no such file") from None
        raise RejectError("unreadable", str(error.strerror or error)) from None
    except ValueError:
        raise RejectError("missing", "its name holds a NUL character") from None
    if not data:
        raise RejectError("empty", "the file has 0 bytes")
    return data


def decode(data: bytes, *, exif: bool, max_pixels: int) -> Image.Image:
    """Decode a picture file to RGB; RejectError if it cannot be used, and no other error for any input.

    Grey is copied to the three channels, transparency is blended with white, 16 bits become 8, an animation gives its
    first frame. ``exif`` rotates the picture by its EXIF orientation. ``max_pixels`` is checked before decoding.
    """
    if not data:
        raise RejectError("empty", "the file has 0 bytes")
    with warnings.catch_warnings():
        # Pillow warns of odd metadata, and of large pictures, which are checked here.
        warnings.simplefilter("ignore")
        try:
            Image.init()
            formats = [name for name in FORMATS if name in Image.OPEN]  # Pillow may be built without some
            with Image.open(io.BytesIO(data), formats=formats) as picture:
                width, height = picture.size
                if width * height > max_pixels:
                    raise RejectError("too_large", f"{width} x {height} pixels, {max_pixels} allowed")
                if (
                    picture.format == "PNG"
                    and data[_DEPTH] == 16
                    and isinstance(picture.info.get("transparency"), tuple)
                ):
                    what = "its transparent colour has 16 bits, its decoded pixels have 8"
                    raise RejectError("unsupported_mode", what)
                whole = _load(picture, data)
                if exif:
                    ImageOps.exif_transpose(whole, in_place=True)
                return _rgb(whole, data)
        except RejectError:
            raise
        except Image.DecompressionBombError:
            raise RejectError("too_large", f"more pixels than the {max_pixels} allowed") from None
        except UnidentifiedImageError:
            raise _unopened(data, formats) from None
        except MemoryError:
            raise RejectError("too_large", "not enough memory to decode it") from None
        except _DECODER_ERRORS as error:
            raise _undecoded(error) from None


def _unopened(data: bytes, formats: list[str]) -> RejectError:
    """Return why Pillow opens a file in none of the formats."""
    for name in formats:
        factory, accepts = Image.OPEN[name]
        if name == "PPM" or accepts is None or accepts(data[:16]) is not True:  # two letters begin many texts
            continue
        try:
            factory(io.BytesIO(data), "")
        except _DECODER_ERRORS as error:
            return _undecoded(error)
    try:
        check_kind(data[:515])
    except ForeignError as kind:
        return RejectError("not_a_picture", f"it is {kind.strerror}. {kind.todo}".removesuffix(". "))
    return RejectError("not_a_picture", "it begins like no known format")


def _undecoded(error: Exception) -> RejectError:
    detail = re.sub(r"0x[0-9a-f]+", "0x", " ".join(str(error).split())) or type(error).__name__
    if "truncat" in detail.lower():
        return RejectError("truncated", detail)
    if _UNSUPPORTED.search(detail):
        return RejectError("unsupported_mode", detail)
    internal = isinstance(error.__cause__ or error, _INTERNAL)
    return RejectError("damaged", "the file is damaged or cut off" if internal else detail)


def _load(picture: Image.Image, data: bytes) -> Image.Image:
    """Return an opened picture with its pixels; RejectError if the file lacks some.

    Pillow accepts incomplete JPEG and PNG files; for the other formats Pillow's own errors are enough.
    """
    missing = None
    if picture.format in ("JPEG", "MPO"):
        whole = decoded_jpeg(data, picture)
        if whole is None:
            picture.load()
        missing = missing_in_jpeg(data, warned=whole is None)
        picture = picture if whole is None else whole
    else:
        picture.load()
        missing = missing_in_png(data) if picture.format == "PNG" else None
    if missing:
        raise RejectError("incomplete", missing)
    return picture


def _rgb(picture: Image.Image, data: bytes) -> Image.Image:
    transparent = picture.info.get("transparency")
    if transparent is not None and picture.format == "PNG" and picture.mode == "L" and data[_DEPTH] < 8:
        # Pillow scales the pixels to 8 bits, and not the transparent value.
        picture.info["transparency"] = transparent = transparent * 255 // (2 ** data[_DEPTH] - 1)
    if picture.mode == "RGB" and transparent is None:
        return picture  # uncopied: a copy would cost a tenth of the decoding
    if picture.mode.startswith("I"):
        return _from_16_bits(picture, transparent)
    if picture.mode in ("RGBA", "LA", "PA") or transparent is not None:
        layer = picture.convert("RGBA")
        if not layer.getchannel("A").getbbox():
            if picture.format != "BMP":  # whose fourth sample is often unused and zero
                raise RejectError("invisible", "all of it is transparent")
            return layer.convert("RGB")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    if picture.mode in ("1", "L", "P", "CMYK", "YCbCr", "LAB", "HSV", "RGBX"):
        return picture.convert("RGB")
    raise RejectError("unsupported_mode", f"Pillow's mode {picture.mode} has no fixed range of values")


def _from_16_bits(picture: Image.Image, transparent: int | None) -> Image.Image:
    # Pillow's own conversion clips at 255, which turns most 16-bit pictures white.
    values = np.asarray(picture).astype(np.int64)
    grey = ((510 * values + 65535) // (2 * 65535)).astype(np.uint8)
    if transparent is not None:  # one grey value is transparent and becomes white
        if (values == transparent).all():
            raise RejectError("invisible", "all of it is transparent")
        grey[values == transparent] = 255
    return Image.fromarray(grey).convert("RGB")


def decoded_jpeg(data: bytes, opened: Image.Image) -> Image.Image | None:
    """Return the first picture of a JPEG file that Pillow opened; None after a warning of libjpeg, or for CMYK."""
    colours = {"RGB": "RGBX", "L": "GRAY"}.get(opened.mode)
    if colours is None:
        return None
    # The size is that of Pillow, which was checked: a buffer that is too small is a ValueError.
    pixels = np.empty((opened.height, opened.width, 1 if opened.mode == "L" else 4), np.uint8)
    try:
        found = simplejpeg.decode_jpeg(data, colours, buffer=pixels, strict=True)
    except ValueError:
        return None
    if found.shape != pixels.shape:
        return None
    # Pillow keeps four bytes a pixel, and copies these fastest.
    picture = Image.new(opened.mode, opened.size, None)
    picture.frombytes(pixels, "raw", "L" if opened.mode == "L" else colours)
    picture.info = opened.info
    return picture


def missing_in_jpeg(data: bytes, *, warned: bool = True) -> str | None:
    """Describe the missing part of the first picture of a JPEG file, for the user; None for a complete picture.

    ``warned`` says that :func:`decoded_jpeg` returned None. What simplejpeg cannot decode counts as complete.
    """
    scans = _Scans()
    header = [b"\xff\xd8"]
    first = end = len(data)
    scan = 0  # start of the last scan's data
    for code, start, stop in _segments(data):
        if scan and scans.hole and data.find(bytes(scans.hole), scan, start) >= 0:
            return f"{scans.hole} or more zero bytes stand where pixels should be"
        scan = 0
        if code == _EOI:
            end = start
            break
        scans.read(code, data[start + 4 : stop])
        if code == _SOS:
            first, scan = min(first, start), stop
        elif first == len(data) and code not in _NOTES:  # libjpeg reports only one warning; odd notes would hide others
            header.append(data[start:stop])
    if scans.waited:
        return "scans are missing"
    if not warned:
        return None
    warning = _warning(b"".join([*header, data[first:end], b"\xff\xd9"]), scans.components)
    found = _REJECTED.match(warning)
    harmless = found is None or (found["marker"] == "d9" and int(found["count"]) <= PADDING)
    return None if harmless else warning


def missing_in_png(data: bytes) -> str | None:
    """Check a PNG file for missing rows; returns as :func:`missing_in_jpeg`. Pillow itself checks the checksums."""
    position, expected, found = 8, 0, 0
    inflater = zlib.decompressobj()
    while position + 8 <= len(data):
        length, kind = int.from_bytes(data[position : position + 4], "big"), data[position + 4 : position + 8]
        body = data[position + 8 : position + 8 + length]
        position += 12 + length
        if kind == b"IHDR":
            expected = _png_bytes(body)
        elif kind == b"IDAT":
            for start in range(0, length, _AT_A_TIME):
                if found < expected:
                    found += len(inflater.decompress(body[start : start + _AT_A_TIME]))
        elif kind == b"IEND":
            break
    return f"its data end after {100 * found // expected} % of the pixels" if found < expected else None


def _png_bytes(header: bytes) -> int:
    """Return the length of unpacked data by the chunk IHDR: a row has whole bytes of pixels and one filter byte."""
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", header[:13])
    bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    passes = _ADAM7 if interlaced else [(0, 0, 1, 1)]
    total = 0
    for left, top, right, down in passes:
        columns, rows = -((left - width) // right), -((top - height) // down)
        total += rows * (1 + (columns * bits + 7) // 8) if columns > 0 else 0
    return total


@dataclass
class _Scans:
    """The scans of a JPEG file, as its segments describe them."""

    components: bytes = b""
    """The ids of the colour components."""
    waited: set[tuple[int, int]] = field(default_factory=set)
    """(component, coefficient) pairs whose last bit has not been read in any scan."""
    hole: int = 0
    """Consecutive zero bytes that are a hole in the last scan; 0 if zeros may be an even colour."""
    _frame: int = 0
    _zeros: dict[int, int] = field(default_factory=dict)
    """The symbol of the code of only zeros, for each table of AC codes."""

    def read(self, code: int, body: bytes) -> None:
        """Process one segment."""
        if code in _FRAMES and not self.components:
            self._frame, self.components = code, body[6::3]
            self.waited = set(itertools.product(self.components, range(64)))
        elif code == _DHT:
            while len(body) > 17:
                self._zeros[body[0]] = body[17]
                body = body[17 + sum(body[1:17]) :]
        elif code == _SOS and body and len(body) == 2 * body[0] + 4:
            here, tables = body[1:-3:2], body[2:-3:2]
            begin, end, precision = body[-3:]
            if self._frame not in _PROGRESSIVE:
                begin, end, precision = 0, 63, 0
            if not precision & 15:
                self.waited.difference_update(itertools.product(here, range(begin, end + 1)))
            if self._frame in _PROGRESSIVE:
                self.hole = HOLE_IN_PROGRESSIVE if begin else 0
            else:
                self.hole = HOLE if any(self._zeros.get(16 | table & 15) for table in tables) else 0


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the marker, begin and end of each segment; a scan's data lie between one end and the next begin.

    The last segment is the end of the picture, with or without a marker in the file.
    """
    position = 2
    while found := _MARKER.search(data, position):
        code, start, position = found[1][0], found.start(), found.end()
        if code not in _BARE:
            position += int.from_bytes(data[position : position + 2], "big")
        yield code, start, position
        if code == _EOI:
            return
    yield _EOI, len(data), len(data)


def _warning(data: bytes, components: bytes) -> str:
    """Return libjpeg's first warning, or an empty text."""
    colours = "CMYK" if len(components) == 4 else "GRAY"
    fast = {"fastdct": True, "fastupsample": True}
    try:  # at an eighth of the size, which reads all codes at little cost
        simplejpeg.decode_jpeg(data, colours, min_height=1, min_width=1, min_factor=8, strict=True, **fast)
    except ValueError as error:
        return str(error)
    return ""
