"""Leaves out part of the training captions, to learn what more of them are worth."""

from __future__ import annotations

import hashlib

from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import CaptionTable
from sightword.errors import CaptionsError
from sightword.messages import plural

SALT = "sightword training pictures 1\n"
"""The text before a picture's id; another text keeps other pictures."""


def subset(table: CaptionTable, settings: CaptionsSettings) -> CaptionTable:
    """Keep of training what ``train_pictures`` and ``train_captions`` say, and the other splits whole.

    Raises:
        CaptionsError: the corpus has fewer training pictures than ``train_pictures``.
    """
    if not settings.train_pictures and not settings.train_captions:
        return table
    pictures = sorted(
        {picture for picture, split in zip(table.image_ids, table.splits, strict=True) if split == "train"},
        key=lambda picture: hashlib.sha256(f"{SALT}{picture}".encode()).digest(),
    )
    wanted, there = settings.train_pictures or len(pictures), len(pictures)
    if wanted > there:
        what = f"captions.train_pictures is {wanted}, and the corpus has {plural(there, 'training picture')}"
        raise CaptionsError(what, expected=f"at most {there}, or 0 for all", todo="Set captions.train_pictures.")
    kept, taken, rows = set(pictures[:wanted]), dict.fromkeys(pictures, 0), []
    for row, (picture, split) in enumerate(zip(table.image_ids, table.splits, strict=True)):
        if split == "train":
            if picture not in kept or (settings.train_captions and taken[picture] == settings.train_captions):
                continue
            taken[picture] += 1
        rows.append(row)
    return table.rows(rows)
