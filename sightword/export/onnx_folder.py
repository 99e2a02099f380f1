"""Export an encoder for programs without PyTorch: two ONNX graphs, and a description of their inputs.

The graphs are compared with the encoder before they are kept. The export needs ``onnx`` and ``onnxruntime``, the extra
``export``.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightword.captions.vocabulary import PAD, UNKNOWN
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError, SetupError
from sightword.io.files import Pathish, atomic_folder, write_json
from sightword.messages import install_extra
from sightword.model.encoders import pad
from sightword.model.shape import NgramShape, TfidfShape

SCHEMA = 1
CAPTIONS, IMAGES, DESCRIPTION = "captions.onnx", "images.onnx", "export.json"
MOST_BYTES = (1 << 31) - (1 << 20)
"""The largest size of a graph with its weights, which is one protobuf message."""
_FILES = {CAPTIONS, IMAGES, DESCRIPTION}
TOLERANCE = 1e-5


def write_export(folder: Pathish, encoder: SentenceEncoder) -> float:
    """Write ``captions.onnx``, ``images.onnx`` and ``export.json``; the same encoder gives the same bytes.

    An encoder without embeddings of pictures has no ``images.onnx``.

    Args:
        folder: a new folder, or a folder with an earlier export.
        encoder: the encoder to export.

    Returns:
        The largest difference between the embeddings of the graphs, run by ONNX Runtime, and of the encoder.

    Raises:
        SetupError: ``onnx`` or ``onnxruntime`` is not installed.
        EncoderError: the folder holds other files, the encoder is too large for a graph, or ONNX Runtime gives
            other embeddings; nothing is written in these cases.
    """
    for name in ("onnx", "onnxruntime"):
        if not importlib.util.find_spec(name):
            raise SetupError(f"{name} is not installed", todo=install_extra("export"))
    from sightword.export.onnx_graph import captions_graph, images_graph

    _check(encoder)
    place = Path(folder)
    if place.exists() and (not place.is_dir() or {path.name for path in place.iterdir()} - _FILES):
        raise EncoderError("exists, and holds more than an export", where=place, todo="Name a new folder.")
    with atomic_folder(place) as temporary:
        sides = [(CAPTIONS, captions_graph), *([(IMAGES, images_graph)] if encoder.features_width else [])]
        for name, build in sides:
            graph = build(encoder)
            (temporary / name).write_bytes(graph.SerializeToString(deterministic=True))
        write_json(temporary / DESCRIPTION, _description(encoder))
        difference = _largest_difference(temporary, encoder)
        if not difference <= TOLERANCE:
            raise EncoderError(
                f"ONNX Runtime gives embeddings that differ by {difference:.1e}",
                where=place,
                expected=f"at most {TOLERANCE:g}",
                todo="Try another version of onnxruntime.",
            )
    return difference


def _check(encoder: SentenceEncoder) -> None:
    """Refuse an encoder that standard operators cannot compute, or whose graph is too large."""
    for part in encoder.leaves:
        what, todo = "", ""
        if isinstance(part.shape, NgramShape):
            what, todo = "reads hashed n-grams", "Use the encoder in Python."
            if isinstance(part.shape, TfidfShape):
                what, todo = "has weighted n-grams", "Use the encoder in Python, or make it with select.lexical: 0."
        elif part.shape.cell == "layer_norm_gru":
            what = "has a GRU with layer normalisation"
            todo = "Use the encoder in Python, or train it with skipthought.layer_norm: none."
        if what:
            raise EncoderError(f"{what}, which ONNX has no operator for", expected="a GRU or an LSTM", todo=todo)
    if len({part.vocabulary for part in encoder.leaves}) > 1:
        raise EncoderError("the encoder reads with several vocabularies", expected="one, for a graph")
    size = sum(4 * weight.numel() for part in encoder.leaves for weight in part.captions.parameters())
    if size > MOST_BYTES:
        raise EncoderError(
            f"the weights of its caption side take {size / 1e9:.1f} GB, which is too much for a graph",
            expected=f"at most {MOST_BYTES / 1e9:.1f} GB",
            todo="Export an encoder of fewer parts.",
        )


def _largest_difference(place: Path, encoder: SentenceEncoder) -> float:
    sentences = _made_up(encoder)
    ids, lengths = pad(encoder.vocabulary.rows(sentences))
    pairs = [(run(place / CAPTIONS, ids=ids.numpy(), lengths=lengths.numpy()), encoder.encode(sentences))]
    if encoder.features_width:
        features = np.random.default_rng(0).normal(size=(7, encoder.features_width)).astype(np.float32)
        pairs.append((run(place / IMAGES, features=features), encoder.encode_images(features)))
    return max(float(np.abs(theirs - ours).max()) for theirs, ours in pairs)


def run(graph: Pathish, **inputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Run a graph by ONNX Runtime on the CPU, and return its ``embeddings``."""
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    found: npt.NDArray[np.float32] = session.run(["embeddings"], inputs)[0]
    return found


def _description(encoder: SentenceEncoder) -> dict[str, Any]:
    vocabulary = encoder.vocabulary
    images = {
        "file": IMAGES,
        "inputs": {"features": f"float32 (pictures, {encoder.features_width})"},
        "output": {"embeddings": f"float32 (pictures, {encoder.width})"},
    }
    return {
        "schema": SCHEMA,
        "similarity": encoder.similarity_name,
        "width": encoder.width,
        "features_width": encoder.features_width,
        "captions": {
            "file": CAPTIONS,
            "inputs": {"ids": "int64 (batch, tokens)", "lengths": "int64 (batch)"},
            "output": {"embeddings": f"float32 (batch, {encoder.width})"},
        },
        **({"images": images} if encoder.features_width else {}),
        "unit": vocabulary.unit,
        "normalise": vocabulary.normalise.to_json(),
        "pad": PAD,
        "unknown": UNKNOWN,
        "ids": {token: number for number, token in enumerate(vocabulary.tokens, start=UNKNOWN + 1)},
    }


def _made_up(encoder: SentenceEncoder) -> list[str]:
    """Make texts of 1 to 60 tokens, some of them unknown."""
    draw = np.random.default_rng(0)
    between = "" if encoder.vocabulary.unit == "character" else " "
    tokens = [*encoder.vocabulary.tokens, "\N{REPLACEMENT CHARACTER}"]
    lengths = [1, 2, 3, 60, *draw.integers(1, 60, size=12)]
    return [between.join([tokens[place] for place in draw.integers(len(tokens), size=n)]) for n in lengths]
