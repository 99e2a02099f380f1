"""The files of a store, in a folder or in object storage: immutable segments of features, named by their hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightword.io.files import Pathish
from sightword.machine import expanded, is_address

if TYPE_CHECKING:
    from sightword.storage.kinds import Place


def place_of(where: Pathish) -> Place:
    """Return the place of a store in a folder, or at an address; SetupError for an address that cannot be a store's."""
    if is_address(str(where)):
        from sightword.storage.objects import ObjectPlace

        return ObjectPlace(str(where))
    from sightword.storage.folder import FolderPlace

    return FolderPlace(expanded(where))
