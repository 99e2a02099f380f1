"""A saved encoder from which another training run starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sightword.encoder.parts import Part
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.io.files import Pathish
from sightword.model.shape import TfidfShape


def read_start(folder: Pathish, name: str, *, others: Sequence[str] = ()) -> Part:
    """Return the network of a saved encoder in a folder of encoders.

    Args:
        folder: the folder with encoders, each in a folder of its own.
        name: the name of the encoder's folder.
        others: names that mean no saved encoder, for the message.

    Raises:
        EncoderError: there is no such encoder, it is damaged, it has several networks, or is tf-idf, which
            is not trained.
    """
    place = Path(folder) / name
    if not place.is_dir():
        known = sorted(path.name for path in Path(folder).glob("*/")) if Path(folder).is_dir() else []
        expected = ", ".join([*others, *known]) or f"a folder in {Path(folder)}, which has none"
        raise EncoderError(f"start {name!r} is no folder of an encoder", where=place, expected=expected)
    parts = SentenceEncoder.load(place).leaves
    if len(parts) != 1:
        raise EncoderError(f"has {len(parts)} networks", where=place, expected="one, to train on")
    if isinstance(parts[0].shape, TfidfShape):
        raise EncoderError("counts n-grams (tf-idf)", where=place, expected="a network, to train on")
    return parts[0]
