"""The folder of a trained network.

``encoder/`` has one space, ``sentence``; ``decoders.safetensors`` has the other weights, and ``skipthought.json``
settings and result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.grounded import GroundedEncoder, Part
from sightword.errors import EncoderError
from sightword.grounded.skipthought.network import Neighbours, SkipThought, shape_of
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.io.files import Pathish, read_json, sha256_file, write_json
from sightword.messages import first_line
from sightword.model.saved import load_module, write_tensors

ENCODER = "encoder"
DECODERS = "decoders.safetensors"
ABOUT = "skipthought.json"
_TODO = "Run `dvc checkout models/skipthought` or `dvc repro grounded/dvc.yaml:skipthought`."


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
    GroundedEncoder([part], {"sentence": nn.Sequential()}, "sentence", notes).save(place / ENCODER)
    decoders = {name: values for name, values in network.state_dict().items() if not name.startswith("captions.")}
    about: dict[str, Any] = {"settings": settings.noted(), "decoders": None, "result": result or {}}
    if decoders:
        write_tensors(place / DECODERS, decoders)
        about["decoders"] = sha256_file(place / DECODERS)
    write_json(place / ABOUT, about)


def load(folder: Pathish, settings: SkipthoughtSettings | None = None) -> SkipThought | Neighbours:
    """Read a network that :func:`save` wrote, to encode or to train on.

    Args:
        folder: such as ``models/skipthought``.
        settings: other settings for training (reduction, precision, temperature); by default those that were saved.

    Raises:
        EncoderError: the folder holds no whole network, or the settings have another network.
        FileFormatError: ``skipthought.json`` is missing or damaged.
    """
    place = Path(folder)
    about = read_json(place / ABOUT)
    try:
        saved = SkipthoughtSettings.model_validate(about["settings"])
        wanted = about["decoders"]
    except (KeyError, TypeError, ValidationError) as error:
        what = f"does not describe a network ({first_line(error)})"
        raise EncoderError(what, where=place / ABOUT, todo=_TODO) from None
    own = saved if settings is None else settings
    fixed = ("objective", "embedding", "hidden", "layer_norm", "decode")
    if other := [name for name in fixed if getattr(own, name) != getattr(saved, name)]:
        raise EncoderError(f"has another {' and '.join(other)} than these settings", where=place / ABOUT)
    part = GroundedEncoder.load(place / ENCODER).parts[0]
    if part.shape != shape_of(saved):
        raise EncoderError("belongs to another network than skipthought.json", where=place / ENCODER, todo=_TODO)
    with torch.device("meta"):  # weights without memory
        network = (SkipThought if own.objective == "skipthought" else Neighbours)(own, len(part.vocabulary))
    network.captions = part.captions
    if isinstance(network, SkipThought):
        where = place / DECODERS
        if not where.is_file() or sha256_file(where) != wanted:
            raise EncoderError("is missing, or is not the file that was saved", where=where, todo=_TODO)
        decoders = nn.ModuleDict({"decoders": network.decoders, "output": network.output})
        load_module(where, decoders)
    return network.eval()
