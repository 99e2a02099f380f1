"""All pictures of a folder of shards."""

from __future__ import annotations

from pathlib import Path

from sightword.images.shards import ResizedPicture, find_pictures, list_pictures


def read_pictures(folder: Path) -> list[ResizedPicture]:
    """Return the pictures in the order of the shards."""
    return list(find_pictures(folder, [listed.image_id for listed in list_pictures(folder)]).values())
