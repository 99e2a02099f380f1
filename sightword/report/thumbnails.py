"""Small copies of the resized pictures, to stand inside the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from sightword.images.shards import find_pictures

QUALITY = 80


def data_uri(picture: Image.Image, longest: int) -> str:
    """A picture as a WebP data URI, its longest side at most ``longest`` pixels."""
    small = picture.convert("RGB")
    small.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=QUALITY, method=6)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def thumbnails(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """Thumbnails of some resized pictures.

    Args:
        folder: the folder of shards; they may be empty, as with precomputed features.
        sizes: the longest side in pixels, by image id.

    Returns:
        Data URIs by image id; pictures that no shard holds are left out.

    Raises:
        FileFormatError: there are no shards, or one is damaged.
    """
    found = find_pictures(folder, sizes)
    return {
        image_id: data_uri(Image.fromarray(picture.array()), sizes[image_id])
        for image_id, picture in sorted(found.items())
    }
