"""Other encoders that are judged on entailment, each beside the same network with random weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from sightword.captions.table import read_texts
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.entailment.training.energies import EnergyName, Floats, pair_energies
from sightword.errors import EncoderError
from sightword.evaluation.semantics.results import Seen
from sightword.io.files import Pathish

CAPTIONS = "captions.parquet"
"""The table of an encoder's training captions, beside its files."""
PARTS = (".", "_vs_", "_untrained", "_classifier")
"""Parts of the keys of the metrics, which no name of an encoder can have."""


@dataclass(frozen=True)
class Other:
    """An encoder with its name; ``seen`` are its training captions, None if they are not known."""

    name: str
    encoder: SentenceEncoder
    seen: Seen | None


def read_others(folder: Pathish, taken: frozenset[str], device: torch.device) -> list[Other]:
    """Read each encoder in a folder of encoders, by name; files beside the folders are passed over.

    No two systems may have one name, so an encoder cannot have a name that the systems of another one have.

    Raises:
        EncoderError: the folder is missing or an encoder itself; one in it holds no encoder or a damaged one, or has a
            name in ``taken`` or with one of :data:`PARTS`.
        CaptionsError: a table of captions has another type.
        FileFormatError: a table of captions is damaged.
    """
    place = Path(folder)
    if not place.is_dir():
        raise EncoderError("is no folder", where=place, expected="a folder with saved encoders, or without any")
    if (place / "encoder.json").exists():
        todo = "Move its files into a folder there, whose name is the system's."
        raise EncoderError("holds the files of an encoder, not folders with encoders", where=place, todo=todo)
    found = []
    for path in sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith(".")):
        if path.name in taken or any(part in path.name for part in PARTS):
            expected = f"a name without {', '.join(PARTS)}, and none of {', '.join(sorted(taken))}"
            raise EncoderError("has a name that a system cannot have", where=path, expected=expected)
        captions = path / CAPTIONS
        seen = Seen(read_texts(captions).split("train").texts) if captions.exists() else None
        found.append(Other(path.name, SentenceEncoder.load(path, device=device), seen))
    return found


def energy_of(encoder: SentenceEncoder) -> tuple[EnergyName, bool]:
    """Return the energy that belongs to an encoder's similarity, and whether the sides change places.

    ``order``: a caption has smaller numbers than its pictures, and so has a hypothesis; ``reversed_order``: larger
    ones, so premise and hypothesis change places. The cosine and the dot product have the symmetric energy.
    """
    name = encoder.similarity_name
    return ("order" if name in ("order", "reversed_order") else "symmetric"), name == "reversed_order"


def energies_by(encoder: SentenceEncoder, premises: Floats, hypotheses: Floats) -> Floats:
    """Return the energies (N,) of pairs of vectors (N, D) of an encoder, by :func:`energy_of`."""
    energy, turned = energy_of(encoder)
    sides = (hypotheses, premises) if turned else (premises, hypotheses)
    return pair_energies(energy, *sides)
