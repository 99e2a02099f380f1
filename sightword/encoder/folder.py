"""The folder of a saved encoder: its files, and checks that the files are complete and unchanged.

``encoder.json``, ``vocabulary.json``, a safetensors file for each member, ``SHA256SUMS`` of these files in the format
of the program ``sha256sum``, and ``modules.json``, which names :data:`WRAPPER` for sentence-transformers. An encoder
beside it has a folder of the same kind in it: ``beside-1``, ``beside-2``, ...
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.pretrained import require_encoder
from sightword.errors import CaptionsError, EncoderError, FileFormatError
from sightword.io.files import Pathish, read_json, read_text, sha256_file, write_json, write_text
from sightword.messages import quote
from sightword.model.encoders import Encoders
from sightword.model.saved import load_encoders, write_tensors
from sightword.model.shape import ComparisonName, Shape

SCHEMA = 3
GROUNDED = "grounded"
"""The kind of the folders of :mod:`sightword.encoder.grounded`."""
WRAPPER = "sightword.encoder.sentence_transformers.SightwordModule"
_KNOWN = {"schema", "similarity", "width", "features_width", "renormalise", "model", "members", "scaled", "beside"}
SUMS = "SHA256SUMS"
WHOLE = "Take the folder whole: run `dvc checkout` in its project, or copy it again."


@dataclass(frozen=True)
class Saved:
    """The contents of a folder."""

    members: list[Encoders]
    vocabulary: Vocabulary
    model: Shape
    renormalise: bool
    similarity: ComparisonName
    notes: dict[str, Any]
    beside: list[Saved]
    """The encoders beside it."""


def write_folder(folder: Pathish, saved: Saved, *, half: bool = False) -> None:
    """Write the files of an encoder, weights in half precision if wanted; the same encoder gives the same bytes.

    Raises:
        EncoderError: a weight is beyond half precision; nothing is written then.
    """
    place = Path(folder)
    parts = {place / f"beside-{number}": other for number, other in enumerate(saved.beside, start=1)} | {place: saved}
    weights = {
        name: _halved(member, name) if half else member.state_dict()
        for path, part in parts.items()
        for number, member in enumerate(part.members, start=1)
        for name in [path / f"member-{number}.safetensors"]
    }
    for left in {path.parent for path in place.glob("beside-*/encoder.json")} - parts.keys():
        if re.fullmatch(r"beside-\d+", left.name):  # of an encoder that was saved here before
            shutil.rmtree(left)
    for path, part in parts.items():  # those beside come first: the encoder's SHA256SUMS has the sums of theirs
        path.mkdir(parents=True, exist_ok=True)
        _write_part(path, part, {name.name: state for name, state in weights.items() if name.parent == path})


def _write_part(place: Path, saved: Saved, weights: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
    for name, state in weights.items():
        write_tensors(place / name, state)
    saved.vocabulary.save(place / "vocabulary.json")
    beside = [f"beside-{number}" for number in range(1, len(saved.beside) + 1)]
    write_json(
        place / "encoder.json",
        {
            "schema": SCHEMA,
            "similarity": saved.similarity,
            "width": saved.model.width + sum(other.model.width for other in saved.beside),
            "features_width": saved.members[0].features_width,
            "renormalise": saved.renormalise,
            "model": asdict(saved.model),
            "members": [*weights],
            **({} if all(member.captions.scaled for member in saved.members) else {"scaled": False}),
            **({"beside": beside} if beside else {}),
            **saved.notes,
        },
    )
    write_sums(place, [*weights, "vocabulary.json", "encoder.json", *(f"{name}/{SUMS}" for name in beside)])
    write_json(place / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": WRAPPER}])


def _halved(member: Encoders, where: Path) -> dict[str, torch.Tensor]:
    """Return the weights in float16, and the statistics of the features, which may be tiny, as they are."""
    state = dict(member.state_dict())
    for name, _ in member.named_parameters():
        state[name] = state[name].half()
        if not state[name].isfinite().all():
            what = f"has weights beyond half precision (in {name})"
            raise EncoderError(what, where=where, expected="at most 65,504", todo="Save it without half.")
    return state


def read_folder(folder: Pathish) -> Saved:
    """Read and check a folder that :func:`write_folder` wrote.

    Raises:
        EncoderError: the folder holds no encoder, one of another version, or one that is not whole or was changed.
    """
    place = Path(folder)
    where = place / "encoder.json"
    about, sums = read_description(place)
    if about.get("kind") == GROUNDED:
        todo = "Load the folder by sightword.encoder.grounded.GroundedEncoder."
        raise EncoderError("is an encoder of grounded spaces, which has no picture side", where=place, todo=todo)
    try:
        shape, names, features_width = Shape.from_json(about["model"]), about["members"], about["features_width"]
        renormalise, similarity = about["renormalise"], about["similarity"]
        plain = isinstance(names, list) and all(isinstance(name, str) and Path(name).name == name for name in names)
        if not names or not plain:
            raise ValueError(f"members is {quote(names)}; expected a list of names of files beside it")
        beside = about.get("beside", [])
        if not isinstance(beside, list) or beside != [f"beside-{number}" for number in range(1, len(beside) + 1)]:
            raise ValueError(f"beside is {quote(beside)}; expected beside-1, beside-2, ...")
        scaled = about.get("scaled", True)
        if type(features_width) is not int or features_width < 1 or not isinstance(renormalise, bool):
            raise ValueError(f"features_width is {quote(features_width)}, renormalise {quote(renormalise)}")
        if not isinstance(scaled, bool):
            raise ValueError(f"scaled is {quote(scaled)}; expected true or false")
        if similarity != shape.similarity and (similarity, shape.similarity) != ("dot", "cosine"):
            raise ValueError(f"similarity {quote(similarity)}, the model has {quote(shape.similarity)}")
        check_sums(place, [*names, "vocabulary.json", *(f"{name}/{SUMS}" for name in beside)], sums)
        vocabulary = Vocabulary.load(place / "vocabulary.json")
    except KeyError as error:
        raise EncoderError(f"is damaged (it has no {error.args[0]})", where=where, todo=WHOLE) from None
    except ValueError as error:
        raise EncoderError(f"is damaged ({error})", where=where, todo=WHOLE) from None
    except (CaptionsError, FileFormatError) as error:
        raise EncoderError(error.what, where=error.where, expected=error.expected, todo=WHOLE) from None
    members = []
    for name in names:
        _check_size(place / name, shape, features_width)
        members.append(load_encoders(place / name, len(vocabulary), features_width, shape))
        check_values(place / name, members[-1])
        members[-1].captions.scaled = scaled
    notes = {key: value for key, value in about.items() if key not in _KNOWN}
    return Saved(
        members, vocabulary, shape, renormalise, similarity, notes, [read_folder(place / one) for one in beside]
    )


def write_sums(place: Path, names: Sequence[str]) -> None:
    """Write ``SHA256SUMS`` of these files of a folder."""
    write_text(place / SUMS, "".join(f"{sha256_file(place / name)}  {name}\n" for name in sorted(names)))


def is_grounded(folder: Pathish) -> bool:
    """Return whether a folder holds an encoder of grounded spaces; its other checks are those of loading it."""
    where = Path(folder) / "encoder.json"
    try:
        about = read_json(where)
    except FileFormatError:
        return False
    return isinstance(about, dict) and about.get("kind") == GROUNDED


def read_description(place: Path) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Return the content of ``encoder.json``, of this version, and the listed sha256 of each file of the folder.

    Raises:
        EncoderError: the folder holds no encoder, one of another version, or one with another ``encoder.json``.
    """
    where = place / "encoder.json"
    require_encoder(place)
    try:
        sums = _sums(place)
        check_sums(place, ["encoder.json"], sums)
        about = read_json(where)
    except FileFormatError as error:
        raise EncoderError(error.what, where=error.where, expected=error.expected, todo=WHOLE) from None
    version = about.get("schema") if isinstance(about, dict) else None
    if isinstance(about, dict) and type(version) is int and version == SCHEMA:
        return about, sums
    what, todo = "", WHOLE
    if type(version) is int and version > SCHEMA:
        what, todo = ", from a newer Sightword", "Update Sightword."
    elif type(version) is int and version > 0:
        what, todo = ", from an earlier Sightword", "Run `dvc repro` in its project, or take a newer copy."
    raise EncoderError(f"has the format {quote(version)}{what}", where=where, expected=str(SCHEMA), todo=todo)


def _sums(place: Path) -> dict[str, str]:
    """Return the listed sha256 of each file."""
    lines = [line.split(maxsplit=1) for line in read_text(place / SUMS).splitlines()]
    return {line[1].lstrip("*"): line[0] for line in lines if len(line) == 2}


def check_sums(place: Path, names: Sequence[str], sums: Mapping[str, str]) -> None:
    """Check that each of these files exists and is the one that was saved; EncoderError otherwise."""
    files = shlex.join(sorted(sums))
    for name in names:
        where = place / name
        if not where.is_file():
            raise EncoderError("is missing", where=where, todo=WHOLE)
        if name not in sums:
            raise EncoderError(
                f"does not list {name}: an earlier Sightword wrote the folder, or it was changed",
                where=place / SUMS,
                todo=f"{WHOLE} An earlier folder is written anew by `dvc repro select`.",
            )
        found = sha256_file(where)
        if found != sums[name]:
            raise EncoderError(
                f"is not the file that was saved with this encoder: its sha256 is {found}",
                where=where,
                expected=f"{sums[name]}, as {SUMS} says",
                todo=f"{WHOLE} If the change is intended, write the sums anew: `sha256sum {files} > {SUMS}`.",
            )


def _check_size(where: Path, shape: Shape, features_width: int) -> None:
    """Check that the file is large enough for the described network, before memory is allocated."""
    bag = shape.cell == "ngrams"
    reader = shape.ngram_buckets if bag else shape.hidden
    least = reader * shape.embedding + features_width * shape.width
    if not bag:
        least += shape.hidden * shape.hidden
    if not bag and shape.pooling == "attention":
        least += shape.attention * shape.width
    if 2 * least > where.stat().st_size:  # a number has two bytes at least
        what = "is not a whole safetensors file, or too small for the network that encoder.json describes"
        raise EncoderError(what, where=where, todo=WHOLE)


def check_values(where: Path, member: nn.Module) -> None:
    """Check that all weights are finite; an infinite standard deviation omits its feature."""
    for name, values in member.state_dict().items():
        bad = values.isnan() if name == "images.deviation" else ~values.isfinite()
        if bad.any():
            raise EncoderError(
                f"holds values that are not finite (in {name})",
                where=where,
                todo="The training run diverged: look at the loss, and train again with a smaller learning rate.",
            )
