"""Encodes pixels without loss and decodes them."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from sightword.errors import FileFormatError
from sightword.images.settings import Encoding

WEBP_SIDE = 16383
"""The longest side that WebP can hold, in pixels."""

Pixels = npt.NDArray[np.uint8]


def hash_pixels(pixels: bytes | memoryview, width: int, height: int) -> str:
    """Return the sha256 of pixels (height, width, 3) with their shape, in hex: part of the key of their features."""
    digest = hashlib.sha256(f"RGB {width} x {height}\n".encode())
    digest.update(pixels)
    return digest.hexdigest()


def encode(picture: Image.Image, encoding: Encoding) -> tuple[Encoding, bytes]:
    """Encode an RGB picture without loss; return the encoding used (PNG if too long for WebP) and the bytes."""
    if encoding == "raw":
        return "raw", picture.tobytes()
    buffer = io.BytesIO()
    if encoding == "webp" and max(picture.size) <= WEBP_SIDE:
        # Method 0 is the fastest; other methods save a few percent and take many times longer.
        picture.save(buffer, format="WEBP", lossless=True, method=0)
        return "webp", buffer.getvalue()
    picture.save(buffer, format="PNG")
    return "png", buffer.getvalue()


def decode_pixels(data: bytes, encoding: str, width: int, height: int) -> Pixels:
    """Return the pixels of :func:`encode`, uint8 (height, width, 3), writable; FileFormatError for another picture."""
    if encoding == "raw":
        if len(data) != width * height * 3:
            raise FileFormatError(f"{len(data)} bytes are not a raw picture of {width} x {height}")
        return np.frombuffer(data, np.uint8).reshape(height, width, 3).copy()
    try:
        with Image.open(io.BytesIO(data), formats=["WEBP", "PNG"]) as picture:
            pixels = np.array(picture)
    except (OSError, SyntaxError, ValueError) as error:
        raise FileFormatError(f"a kept picture cannot be decoded ({type(error).__name__})") from None
    if pixels.shape != (height, width, 3):
        raise FileFormatError(f"a kept picture has the shape {pixels.shape}", expected=f"({height}, {width}, 3)")
    return pixels
