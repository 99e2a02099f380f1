"""Decodes any picture file to RGB pixels, or returns a reason for the rejection.

Pillow's mode has neither range nor bit depth of the samples; they are taken from the file, of TIFF from the tags of
TIFF 6.0, as libtiff does. libtiff goes on after some errors, such as a bad code word in a fax, and Pillow then accepts
the picture; these errors are collected here.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import logging
import os
import re
import struct
import threading
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError, _imaging

from sightword.errors import PictureError
from sightword.images.completeness import decoded_jpeg, missing_in_jpeg, missing_in_png
from sightword.io.files import Pathish
from sightword.io.opening import foreign
from sightword.places import place as places
from sightword.places.place import Place

log = logging.getLogger(__name__)

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
"""Pillow's names of the accepted formats. EPS is not accepted, since Pillow would start Ghostscript."""

Reason = Literal["missing", "unreadable", "not_a_file", "empty", "not_a_picture", "truncated", "incomplete", "damaged",
                 "too_large", "unsupported_mode", "invisible"]  # fmt: skip
"""The reasons for a rejection; ``docs/features.md`` explains each to users."""

# The errors that Pillow's decoders raise on damaged files, as found with truncated and garbled files.
_DECODER_ERRORS = (OSError, SyntaxError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
                   RuntimeError, EOFError, struct.error, zlib.error)  # fmt: skip
# Of these, the ones of Python, whose messages say nothing of the picture; Pillow raises some again as a SyntaxError.
_INTERNAL = (LookupError, TypeError, AttributeError, ArithmeticError, EOFError, struct.error)
# Messages of Pillow and libtiff for whole files of a kind that they do not decode.
_UNSUPPORTED = re.compile(
    "(?i)unsupported|not yet supported|not configured|cannot handle|unable to determine|unknown raw mode"
    "|samples per pixel"
)
_BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER, _SAMPLES, _PLANES = 258, 259, 262, 266, 277, 284
_EXTRA, _FORMAT = 338, 339
_FAX, _OLD_JPEG = (2, 3, 4), 6
_ALPHA = (1, 2)
"""ExtraSamples: associated and unassociated alpha."""
_DEPTH = 24
"""Offset of the bit depth in a PNG file."""


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
        RejectError: ``missing``, ``unreadable``, ``not_a_file``, ``empty`` or ``too_large`` (larger than uncompressed
            16-bit RGBA pixels).
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
        raise RejectError("unreadable", os.strerror(error.errno) if error.errno else str(error)) from None
    except ValueError:
        raise RejectError("missing", "its name holds a NUL character") from None
    if not data:
        raise RejectError("empty", "the file has 0 bytes")
    return data


def decode(data: bytes, *, exif: bool, max_pixels: int) -> Image.Image:
    """Decode a picture file to RGB.

    Grey is copied to the three channels, transparency is blended with white, 12 and 16 bits become 8, an animation
    gives its first frame. Pillow always applies a TIFF's orientation, which belongs to the format.

    Args:
        data: the file's bytes.
        exif: rotate the picture by its EXIF orientation.
        max_pixels: the largest allowed width times height, checked by the header before any pixel is decoded.

    Raises:
        RejectError: the picture cannot be used; no input raises another error.
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
                if why := unsupported(picture, data):
                    raise RejectError("unsupported_mode", why)
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
            # Not in Pillow's table of kinds, or planes that Pillow's name of the kind does not have.
            if name == "TIFF" and isinstance(error.__cause__, KeyError | IndexError):
                return RejectError("unsupported_mode", "its kind of samples is not read")
            return _undecoded(error)
    kind = foreign(data[:512])
    return RejectError("not_a_picture", f"it is {kind[0]}. {kind[1]}" if kind else "it begins like no known format")


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
    elif picture.format == "TIFF":
        _load_tiff(picture)
    else:
        picture.load()
        missing = missing_in_png(data) if picture.format == "PNG" else None
    if missing:
        raise RejectError("incomplete", missing)
    return picture


def _load_tiff(picture: Image.Image) -> None:
    """Decode the pixels; OSError if libtiff reports an error, even if libtiff continues."""
    with collect_errors() as errors:
        try:
            picture.load()
        except OSError:
            if not errors:
                raise
        if errors:
            raise OSError(errors[0])


def _rgb(picture: Image.Image, data: bytes) -> Image.Image:
    if (transparent := transparent_value(picture, data)) is not None:
        picture.info["transparency"] = transparent
    if picture.mode == "RGB" and transparent is None:
        return picture  # uncopied: a copy would cost a tenth of the decoding
    if picture.mode.startswith("I"):
        return _from_16_bits(picture)
    if picture.mode in ("RGBA", "LA", "PA", "RGBa", "La") or transparent is not None:
        # Pillow converts La to LA only.
        layer = (picture.convert("LA") if picture.mode == "La" else picture).convert("RGBA")
        if not layer.getchannel("A").getbbox():
            _check_visible(visible=not has_certain_alpha(picture))
            return layer.convert("RGB")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    if picture.mode in ("1", "L", "P", "CMYK", "YCbCr", "LAB", "HSV", "RGBX"):
        return picture.convert("RGB")
    raise RejectError("unsupported_mode", f"Pillow's mode {picture.mode} has no fixed range of values")


def _from_16_bits(picture: Image.Image) -> Image.Image:
    # Pillow's own conversion clips at 255, which turns most 16-bit pictures white.
    values = np.asarray(picture).astype(np.int64)
    black, white = grey_range(picture)
    span = abs(white - black)
    grey = ((510 * abs(values - black) + span) // (2 * span)).astype(np.uint8)
    if "transparency" in picture.info:  # one grey value is transparent and becomes white
        clear = values == picture.info["transparency"]
        _check_visible(visible=not clear.all())
        grey[clear] = 255
    return Image.fromarray(grey).convert("RGB")


def _check_visible(*, visible: bool) -> None:
    if not visible:
        raise RejectError("invisible", "all of it is transparent")


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


def _tags(picture: Image.Image) -> Mapping[int, Any] | None:
    return picture.tag_v2 if picture.format == "TIFF" else None  # type: ignore[attr-defined]  # of that plugin only


# void (*)(const char *module, const char *format, va_list values); the values are not read.
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)


class _Collected(threading.local):
    errors: list[str] | None = None


_collected = _Collected()
_lock = threading.Lock()
_listeners = 0
_before: int | None = None


def _handle(module: bytes | None, text: bytes | None, _: int | None) -> None:
    """Collect an error, or log it in a thread that does not collect errors."""
    pieces = re.split(r"%[^a-zA-Z]*l*[a-zA-Z]", (text or b"").decode("ascii", "replace"))
    words = next(filter(str.strip, pieces), "").split(" at ")[0].strip(" :,(.")
    # The module is a function of libtiff, or the name that Pillow gives to every file.
    error = words if module in (None, b"tempfile.tif") else f"{module.decode('ascii', 'replace')}: {words}"
    if _collected.errors is None:
        log.warning("libtiff: %s", error)
    else:
        _collected.errors.append(error)


_handler = _Handler(_handle)


@contextlib.contextmanager
def collect_errors() -> Iterator[list[str]]:
    """Yield a list that collects libtiff's errors in this thread, without the numbers in them.

    The list stays empty if libtiff is linked statically into Pillow.
    """
    _collected.errors = []
    _listen(1)
    try:
        yield _collected.errors
    finally:
        _listen(-1)
        _collected.errors = None


def _listen(step: int) -> None:
    """Count the collecting threads; the first installs the handler and the last removes it."""
    global _listeners, _before
    try:
        # The symbol is found through the libraries that Pillow's own module loads.
        exchange = ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler
    except (AttributeError, OSError):
        return
    exchange.argtypes, exchange.restype = [ctypes.c_void_p], ctypes.c_void_p
    with _lock:
        _listeners += step
        if _listeners == 1 and step == 1:
            _before = exchange(ctypes.cast(_handler, ctypes.c_void_p))
        elif _listeners == 0:
            exchange(_before)
