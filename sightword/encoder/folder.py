"""The folder of a saved encoder.

``encoder.json`` has a tree of parts, each with the names of its files: ``part-N.safetensors``, and ``vocabulary.json``
(a second vocabulary: ``vocabulary-2.json``). ``heads.safetensors`` has the maps into spaces. ``SHA256SUMS`` has the
sums of all of them (:mod:`sightword.io.saved`); ``modules.json`` names :data:`WRAPPER` for sentence-transformers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.combination import Combination
from sightword.encoder.parts import SPACES, Part, blank, head, widths_of
from sightword.encoder.pretrained import ENCODER, require_encoder
from sightword.errors import EncoderError
from sightword.io.files import write_json
from sightword.io.saved import entry
from sightword.messages import quote
from sightword.model.saved import StoredName, load_module, packed, write_tensors
from sightword.model.shape import MOST, shape_as_json, shape_from_json

WRAPPER = "sightword.export.sentence_transformers.SightwordModule"
HEADS = "heads.safetensors"

Kind = TypeVar("Kind", bound=Combination)


def write_folder(place: Path, encoder: Combination, *, stored: StoredName = "float32") -> None:
    """Write the files of an encoder, weights stored as wanted; the same encoder gives the same bytes.

    Raises:
        EncoderError: a weight is beyond half precision; nothing is written then.
    """
    modules: dict[str, nn.Module] = {
        f"part-{number}.safetensors": part.network for number, part in enumerate(encoder.leaves, start=1)
    }
    heads = nn.ModuleDict(dict(encoder.heads))
    if heads.state_dict():
        modules[HEADS] = heads
    weights = {name: packed(one, stored, place / name) for name, one in modules.items()}
    distinct = dict.fromkeys(part.vocabulary for part in encoder.leaves)
    vocabularies = {one: f"vocabulary{f'-{n}' * (n > 1)}.json" for n, one in enumerate(distinct, start=1)}
    place.mkdir(parents=True, exist_ok=True)
    for name, state in weights.items():
        write_tensors(place / name, state)
    for vocabulary, name in vocabularies.items():
        vocabulary.save(place / name)
    about = {
        "similarity": encoder.similarity_name,
        "width": encoder.width,
        "features_width": encoder.features_width,
        **_described(encoder, itertools.count(1), vocabularies),
        "spaces": {name: widths_of(one) for name, one in encoder.heads.items()},
        "default": encoder.default,
    }
    ENCODER.write(place, about, [*weights, *vocabularies.values()])
    write_json(place / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": WRAPPER}])


def _described(encoder: Combination, numbers: Iterator[int], vocabularies: Mapping[Vocabulary, str]) -> dict[str, Any]:
    parts = [
        {
            "weights": f"part-{next(numbers)}.safetensors",
            "vocabulary": vocabularies[part.vocabulary],
            "features_width": part.features_width,
            "shape": shape_as_json(part.shape),
        }
        if isinstance(part, Part)
        else _described(part, numbers, vocabularies)
        for part in encoder.parts
    ]
    return {
        "combine": encoder.combine,
        "renormalise": encoder.renormalise,
        "shares": list(encoder.shares),
        "parts": parts,
        "notes": encoder.notes,
    }


def read_folder(place: Path, kind: type[Kind]) -> Kind:
    """Read and check a folder that :func:`write_folder` wrote; return an encoder of this class, on the CPU.

    Raises:
        EncoderError: the folder holds no encoder, one of another version, or one that is not whole or was changed.
    """
    require_encoder(place)
    about, names = ENCODER.read(place)
    with ENCODER.checked(place / ENCODER.description):
        heads = _heads(entry(about, "spaces", dict))
        part = partial(_part, place, names, cache(Vocabulary.load))
        found = _built(part, about, kind, heads=heads, default=about.get("default"))
        for name in ("similarity", "width", "features_width"):
            derived = getattr(found, "similarity_name" if name == "similarity" else name)
            if entry(about, name, type(derived)) != derived:
                raise ValueError(f"{name} is {quote(about[name])}; expected {derived!r}, as its parts have it")
        for name, module in found.heads.items():
            inputs = widths_of(module)[:1]
            if inputs and inputs[0] != found.combined_width:
                raise ValueError(f"spaces.{name} maps from {inputs[0]} numbers; expected {found.combined_width}")
    modules = nn.ModuleDict(dict(found.heads))
    if modules.state_dict():
        ENCODER.require(names, HEADS, where=place)
        load_module(place / HEADS, modules, finite=True)
    return found


def _part(
    place: Path, names: frozenset[str], vocabulary_of: Callable[[Path], Vocabulary], about: Mapping[str, Any]
) -> Part:
    """Read one network of a folder whose files were checked."""
    name, words = (entry(about, key, str) for key in ("weights", "vocabulary"))
    features = entry(about, "features_width", int)
    if not 0 <= features <= MOST:
        raise ValueError(f"features_width is {quote(features)}; expected a whole number from 0 to {MOST:,}")
    shape = shape_from_json(entry(about, "shape", dict))
    ENCODER.require(names, name, words, where=place)
    vocabulary = vocabulary_of(place / words)
    network = load_module(place / name, blank(len(vocabulary), shape, features), finite=True)
    captions, images = network["captions"], network["images"] if features else None
    return Part(captions, vocabulary, shape, images)  # type: ignore[arg-type]  # a ModuleDict has modules of any kind


def _built(
    part: Callable[[Mapping[str, Any]], Part], about: Mapping[str, Any], kind: type[Kind], **spaces: Any
) -> Kind:
    parts: list[Part | Combination] = []
    for one in entry(about, "parts", list):
        if not isinstance(one, dict):
            raise ValueError(f"parts has {quote(one)}; expected objects")
        parts.append(_built(part, one, kind) if "parts" in one else part(one))
    combine, renormalise = entry(about, "combine", str), entry(about, "renormalise", bool)
    notes, shares = entry(about, "notes", dict), entry(about, "shares", list)
    for name in {"features", "training"} & notes.keys():
        entry(notes, name, dict)
    try:
        return kind(parts, combine, renormalise, notes, shares=shares, **spaces)  # type: ignore[arg-type]  # checked there
    except EncoderError as error:
        raise ValueError(str(error)) from None


def _heads(spaces: Mapping[str, Any]) -> dict[str, nn.Sequential]:
    """Return the described heads, without memory for weights."""
    for name, widths in spaces.items():
        wrong = not isinstance(widths, list) or len(widths) == 1
        if name not in SPACES or wrong or not all(type(one) is int and 0 < one <= MOST for one in widths):
            raise ValueError(f"spaces.{quote(name)[1:-1]} is {quote(widths)}; expected the widths of maps, or none")
    with torch.device("meta"):
        return {name: head(widths) for name, widths in spaces.items()}
