"""The folder of a trained network.

``encoder/`` has one space, ``sentence``; ``decoders.safetensors`` has the other weights, and ``skipthought.json``
settings and result. ``SHA256SUMS`` has the sums of all files (:mod:`sightword.io.saved`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import Part
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.grounded.skipthought.network import Neighbours, SkipThought, shape_of
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.io.files import Pathish
from sightword.io.saved import SUMS, Format, as_folder, entry
from sightword.model.saved import load_module, write_tensors

ENCODER = "encoder"
DECODERS = "decoders.safetensors"
FORMAT = Format(
    "skipthought.json", 1, "Run `dvc checkout models/skipthought` or `dvc repro grounded/dvc.yaml:skipthought`."
)


def save(
    folder: Pathish, network: SkipThought | Neighbours, vocabulary: Vocabulary, *, result: dict[str, Any] | None = None
) -> None:
    """Write the files of a network into an existing folder; the same network gives the same bytes.

    Args:
        folder: the folder.
        network: the network.
        vocabulary: the vocabulary of the text.
        result: numbers about the training run, kept in ``skipthought.json``.
    """
    place, settings = Path(folder), network.settings
    notes = {"trained_on": "ordered text", "training": settings.noted()}
    part = Part(network.captions, vocabulary, shape_of(settings))
    heads = {"sentence": nn.Sequential()}
    SentenceEncoder([part], "join", notes=notes, heads=heads, default="sentence").save(place / ENCODER)
    names = [f"{ENCODER}/{SUMS}"]
    decoders = {name: values for name, values in network.state_dict().items() if not name.startswith("captions.")}
    if decoders:
        names.append(DECODERS)
        write_tensors(place / DECODERS, decoders)
    FORMAT.write(place, {"settings": settings.noted(), "result": result or {}}, names)


def load(folder: Pathish, settings: SkipthoughtSettings | None = None) -> SkipThought | Neighbours:
    """Read a network that :func:`save` wrote, to encode or to train on.

    Args:
        folder: such as ``models/skipthought``.
        settings: other settings for training (reduction, precision, temperature); by default those that were saved.

    Raises:
        EncoderError: the folder holds no whole network, or the settings have another network.
    """
    place = as_folder(folder)
    about, names = FORMAT.read(place)
    where = place / FORMAT.description
    with FORMAT.checked(where):
        saved = SkipthoughtSettings.model_validate(entry(about, "settings", dict))
    own = saved if settings is None else settings
    fixed = ("objective", "embedding", "hidden", "layer_norm", "decode")
    if other := [name for name in fixed if getattr(own, name) != getattr(saved, name)]:
        raise EncoderError(f"has another {' and '.join(other)} than these settings", where=where)
    FORMAT.require(names, f"{ENCODER}/{SUMS}", where=place)
    part = SentenceEncoder.load(place / ENCODER).leaves[0]
    if part.shape != shape_of(saved):
        what = f"belongs to another network than {FORMAT.description}"
        raise EncoderError(what, where=place / ENCODER, todo=FORMAT.todo)
    with torch.device("meta"):  # weights without memory
        network = (SkipThought if own.objective == "skipthought" else Neighbours)(own, len(part.vocabulary))
    network.captions = part.captions
    if isinstance(network, SkipThought):
        FORMAT.require(names, DECODERS, where=place)
        decoders = nn.ModuleDict({"decoders": network.decoders, "output": network.output})
        load_module(place / DECODERS, decoders, finite=True)
    return network.eval()
