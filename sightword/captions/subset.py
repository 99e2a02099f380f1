"""Leaves out part of the training captions, to learn what more of them are worth."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import CaptionTable
from sightword.errors import CaptionsError
from sightword.messages import plural

SALT = "sightword training pictures 1\n"
"""The text before a picture's id; another text keeps other pictures."""


def subset(parts: Iterable[CaptionTable], settings: CaptionsSettings) -> Callable[[CaptionTable], CaptionTable]:
    """Return what keeps of a part the training captions of ``train_pictures`` and ``train_captions``, and other splits.

    Raises:
        CaptionsError: the corpus has fewer training pictures than ``train_pictures``.
    """
    wanted, most = settings.train_pictures, settings.train_captions
    if not wanted and not most:
        return lambda table: table
    pictures = {name for table in parts for name in _training(table)} if wanted else set()
    if wanted > len(pictures):
        there = plural(len(pictures), "training picture")
        what = f"captions.train_pictures is {wanted}, and the corpus has {there}"
        raise CaptionsError(
            what, expected=f"at most {len(pictures)}, or 0 for all", todo="Set captions.train_pictures."
        )
    kept = set(sorted(pictures, key=_number)[:wanted])

    def keeps(name: str, number: int, split: str) -> bool:
        return split != "train" or ((not wanted or name in kept) and (not most or number < most))

    def keep(table: CaptionTable) -> CaptionTable:
        rows = zip(table.image_ids, table.captions, table.splits, strict=True)
        return table.rows([row for row, one in enumerate(rows) if keeps(*one)])

    return keep


def _training(table: CaptionTable) -> list[str]:
    return [name for name, split in zip(table.image_ids, table.splits, strict=True) if split == "train"]


def _number(image_id: str) -> bytes:
    return hashlib.sha256(f"{SALT}{image_id}".encode()).digest()
