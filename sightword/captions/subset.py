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

    Captions stay in the corpus's order.

    Raises:
        CaptionsError: the corpus has fewer training pictures than ``train_pictures``.
    """
    wanted, most = settings.train_pictures, settings.train_captions
    if not wanted and not most:
        return lambda table: table
    pictures: dict[str, list[tuple[str, int]]] = {}
    for table in parts:
        for name, number, split in zip(table.image_ids, table.captions, table.splits, strict=True):
            if split == "train":
                pictures.setdefault(name, []).append((name, number))
    if wanted > len(pictures):
        there = plural(len(pictures), "training picture")
        what = f"captions.train_pictures is {wanted}, and the corpus has {there}"
        raise CaptionsError(
            what, expected=f"at most {len(pictures)}, or 0 for all", todo="Set captions.train_pictures."
        )

    def place(caption: tuple[str, int]) -> bytes | int:
        name, number = caption
        return _hash(f"{settings.draw_seed}\n{name}\n{number}") if settings.draw == "hash" else number

    kept: set[tuple[str, int]] = set()
    for name in sorted(pictures, key=lambda name: _hash(f"{SALT}{name}"))[: wanted or None]:
        kept.update(sorted(pictures[name], key=place)[: most or None])

    def keep(table: CaptionTable) -> CaptionTable:
        rows = enumerate(zip(table.image_ids, table.captions, table.splits, strict=True))
        return table.rows([row for row, (name, number, split) in rows if split != "train" or (name, number) in kept])

    return keep


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
