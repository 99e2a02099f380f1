"""Makes small copies of the resized pictures for the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from sightword.images.shards import find_pictures

QUALITY = 80


def data_uri(picture: Image.Image, longest: int) -> str:
    """Return a picture as a WebP data URI with at most ``longest`` pixels on its longest side."""
    small = picture.convert("RGB")
    small.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=QUALITY, method=6)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def thumbnails(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """Return thumbnails of resized pictures.

    Args:
        folder: the folder of shards, which may be empty, as with precomputed features.
        sizes: the longest side in pixels, by image id.

    Returns:
        Data URIs by image id; missing pictures are left out.

    Raises:
        FileFormatError: the folder has no shards, or a shard is damaged.
    """
    found = find_pictures(folder, sizes)
    return {
        image_id: data_uri(Image.fromarray(picture.array()), sizes[image_id])
        for image_id, picture in sorted(found.items())
    }
