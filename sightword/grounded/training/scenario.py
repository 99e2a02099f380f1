"""One scenario: its start, its losses of text and pictures, and the encoder that comes of it."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import Part, head
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.grounded.skipthought.network import Neighbours, SkipThought, build, load, shape_of
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.grounded.skipthought.task import batches, examples
from sightword.grounded.training.settings import Scenario
from sightword.grounded.training.task import Batch, Described, Extra, GroundingTask, Network, Rows, check, empty
from sightword.io.files import Pathish
from sightword.model.embedding import embed_captions
from sightword.text.storage import Text
from sightword.training.checkpoint import Checkpoint, Progress
from sightword.training.engine import run

log = logging.getLogger(__name__)

Doubles = NDArray[np.float64]

_AS_TEXT = 9
"""Stream of random numbers of the order of captions as text."""
_BLOCK = 4096
"""Rows that SEQ reads together."""


@dataclass(frozen=True, eq=False)
class Textual:
    """The encoder T of text, and what it was trained with."""

    part: Part
    settings: SkipthoughtSettings
    network: SkipThought | Neighbours  # T's encoder with its decoders; its own copy of the weights
    text: Text


@dataclass(frozen=True, eq=False)
class Inputs:
    """What scenarios are trained on."""

    textual: Textual
    training: Described  # the captions and pictures to learn from, with the ids of the start's vocabulary
    dev: Described | None  # captions and pictures whose losses are measured; None for none
    start: Part | None = None  # the saved encoder that the scenario names


@dataclass(frozen=True, eq=False)
class Grounded:
    """The result of a scenario."""

    encoder: SentenceEncoder
    progress: Progress
    facts: dict[str, Any]


def read_textual(folder: Pathish, text: Text) -> Textual:
    """Read the folder that the stage skipthought wrote; EncoderError if it is damaged or belongs to another text."""
    place = Path(folder)
    part = SentenceEncoder.load(place / "encoder").leaves[0]
    if part.vocabulary != text.vocabulary:
        todo = "Run the stage skipthought again (`dvc repro grounded/dvc.yaml:skipthought`)."
        raise EncoderError("reads another vocabulary than the text has", where=place / "encoder", todo=todo)
    network = load(place)
    return Textual(part, network.settings, network, text)


def ground(
    scenario: Scenario, seed: int, inputs: Inputs, *, device: torch.device, notes: dict[str, Any] | None = None,
    checkpoint: Checkpoint | None = None, bar: bool = False,
) -> Grounded:  # fmt: skip
    """Train a scenario with a seed, and return its encoder; ``notes`` are kept in the encoder's folder.

    TrainingError if the losses cannot be computed, or are not finite.
    """
    notes, textual, training = dict(notes or {}), inputs.textual, inputs.training
    own, network = _own(scenario, seed, inputs)
    before = [textual.part] if scenario.concatenate else []
    if scenario.sequential:
        training = training.controlled(scenario, seed)
        maps = sequential(embed_captions(own.captions, training.ids), training.features, training.picture_of)
        heads = {"sentence": _linear(maps.sentence), "visual": _linear(maps.picture)}
        return Grounded(_encoder([own], heads, scenario.judged, notes), Progress(curves=empty()), {"weights": 0})
    if not scenario.trains:
        encoder = _encoder([*before, own], {"sentence": nn.Sequential()}, "sentence", notes)
        return Grounded(encoder, Progress(curves=empty()), {"weights": 0})
    check(training, scenario)
    modules = Network(own.captions, own.shape.width, training.features.shape[1], scenario)
    extra, others = _extra(scenario, seed, inputs, own, network)
    task = GroundingTask(scenario, seed, modules, training, inputs.dev, device, extra, others)
    run(task, checkpoint, bar=bar)
    guess = 2 * math.log(len(own.vocabulary))  # at most: two decoders give all words one share
    for name in extra:
        if (last := task.progress.last("loss", name)) > guess:
            what = "train: the %s loss is %.4g, and that of a guess %.4g at most: lower the scenario's rate"
            log.warning(what, name, last, guess)
    modules, skipped = modules.cpu(), sum(part.shape.width for part in before)
    heads = {"sentence": nn.Sequential()}
    if scenario.has_grounded:
        heads["grounded"] = _behind(skipped, modules.grounded)
    if scenario.projection:
        heads["visual"] = _behind(skipped, modules.visual)
    encoder = _encoder([*before, own], heads, scenario.judged, notes)
    return Grounded(encoder, task.progress, {"weights": sum(weights.numel() for weights in task.trained)})


def _own(scenario: Scenario, seed: int, inputs: Inputs) -> tuple[Part, SkipThought | Neighbours | None]:
    """Return the part that a scenario trains, and the network of text that shares its encoder."""
    textual, start = inputs.textual, inputs.start
    torch.manual_seed(seed)
    if scenario.start == "skipthought":
        network = textual.network
        captions = network.captions if scenario.trains else textual.part.captions
        return Part(captions, textual.part.vocabulary, textual.part.shape), network
    if scenario.start == "scratch":
        settings = textual.settings.model_copy(update={"hidden": scenario.states or textual.settings.hidden})
        network = build(settings, len(textual.part.vocabulary))
        return Part(network.captions, textual.part.vocabulary, shape_of(settings)), network
    assert start is not None
    return Part(copy.deepcopy(start.captions), start.vocabulary, start.shape), None


def _extra(
    scenario: Scenario, seed: int, inputs: Inputs, own: Part, network: SkipThought | Neighbours | None
) -> tuple[dict[str, Extra], nn.ModuleDict | None]:
    """Return the losses with decoders, and the modules that they train besides the encoder."""
    textual, training = inputs.textual, inputs.training
    heads: dict[str, Extra] = {}
    others: dict[str, nn.Module] = {}
    for name, weight in (("text", scenario.text), ("captions_as_text", scenario.captions_as_text)):
        if not weight:
            continue
        assert network is not None
        network.settings = network.settings.model_copy(update={"precision": scenario.precision})
        text, done = textual.text, 0
        if name == "captions_as_text":  # one passage, in random order
            random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, _AS_TEXT])))
            rows = [training.ids[row] for row in random.permutation(len(training.ids))]
            text = in_memory(rows, text.vocabulary, text.max_tokens)
        elif scenario.start == "skipthought":
            done = network.settings.steps  # T goes on where it stopped
        heads[name] = Extra(weight, _TextLoss(network, text, seed, done).loss)
        others["text"] = network
    if scenario.cap2cap:
        changes: dict[str, Any] = {"objective": "skipthought", "hidden": own.shape.width}
        changes["precision"] = scenario.precision
        decoder = build(textual.settings.model_copy(update=changes), len(own.vocabulary), ("next",))
        assert isinstance(decoder, SkipThought)
        decoder.captions = own.captions
        ids, most, vocabulary = training.ids, textual.text.max_tokens, own.vocabulary

        def loss(_: int, pictures: Batch) -> torch.Tensor:
            rows = np.flatnonzero(pictures.second >= 0)
            sides = zip(pictures.first[rows], pictures.second[rows], strict=True)
            couples = in_memory([ids[row] for couple in sides for row in couple], vocabulary, most)
            if not len(couples):
                return own.captions.embedding.weight.sum() * 0.0
            return decoder.loss(couples, np.arange(0, len(couples), 2))

        heads["cap2cap"] = Extra(scenario.cap2cap, loss, grounded=True)
        others["cap2cap"] = decoder
    return heads, nn.ModuleDict(others) if others else None


class _TextLoss:
    """The loss of the text of one batch after another; ``done`` batches of the order were read before."""

    def __init__(self, network: SkipThought | Neighbours, text: Text, seed: int, done: int) -> None:
        self.network, self.text, self.seed, self.done = network, text, seed, done
        examples(text, network.settings)  # too little text is reported before the training run
        self.order: Iterator[Rows] | None = None

    def loss(self, number: int, _: Batch) -> torch.Tensor:
        """Return the loss of batch ``number``; numbers rise by 1 from call to call."""
        if self.order is None:
            self.order = batches(self.text, self.network.settings, seed=self.seed, start=self.done + number)
        return self.network.loss(self.text, next(self.order))


def in_memory(rows: list[Rows], vocabulary: Vocabulary, most: int) -> Text:
    """Return sentences as the text of one passage of training."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    tokens = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.uint32)
    nothing = np.zeros(len(rows))
    return Text(vocabulary, tokens, offsets, nothing.astype(np.int32), nothing.astype(np.uint8), max_tokens=most)


def _encoder(
    parts: Sequence[Part], heads: dict[str, nn.Sequential], judged: str, notes: dict[str, Any]
) -> SentenceEncoder:
    return SentenceEncoder(parts, "join", notes=notes, heads=heads, default=judged)


@torch.no_grad()
def _behind(skipped: int, module: nn.Sequential) -> nn.Sequential:
    """Return a copy of ``module`` that ignores its first ``skipped`` inputs."""
    linear = [layer for layer in module if isinstance(layer, nn.Linear)]
    layers = head([skipped + linear[0].in_features, *(layer.out_features for layer in linear)])
    for own, layer in zip((one for one in layers if isinstance(one, nn.Linear)), linear, strict=True):
        own.weight.zero_()
        own.weight[:, own.in_features - layer.in_features :] = layer.weight
        own.bias.copy_(layer.bias)
    return layers.to(linear[0].weight.device)


@torch.no_grad()
def _linear(affine: Affine) -> nn.Sequential:
    outputs, inputs = affine.matrix.shape
    layers = head([inputs, outputs])
    layer = layers[0]
    assert isinstance(layer, nn.Linear)
    layer.weight.copy_(torch.from_numpy(affine.matrix))
    layer.bias.copy_(torch.from_numpy(affine.bias))
    return layers


class Affine(NamedTuple):
    """The map ``x -> matrix x + bias``."""

    matrix: Doubles  # (outputs, inputs)
    bias: Doubles  # (outputs,)

    def __call__(self, vectors: NDArray[np.floating]) -> Doubles:
        """Map (N, inputs) to (N, outputs)."""
        mapped: Doubles = vectors @ self.matrix.T + self.bias
        return mapped


class Sequential(NamedTuple):
    """Both maps of a sentence's vector."""

    picture: Affine  # to the predicted picture
    sentence: Affine  # to the principal axes of the concatenation


def sequential(
    vectors: NDArray[np.floating], pictures: NDArray[np.floating], picture_of: NDArray[np.int64]
) -> Sequential:
    """Fit SEQ, the sequential baseline (Bordes et al. 2019, section 4.2), in float64.

    A linear regression maps a sentence's vector t to the vector of its picture, ``W t + b``. ``[t ; W t + b]`` is
    projected on as many principal axes as t has numbers. All of it together is one affine map of t. The training
    captions have vectors (M, D) and pictures (M,), the pictures features (N, F).
    """
    mean = vectors.mean(axis=0, dtype=np.float64)
    counts = np.bincount(picture_of, minlength=len(pictures))
    picture_mean = np.zeros(pictures.shape[1])
    own, both = np.zeros((len(mean), len(mean))), np.zeros((len(mean), pictures.shape[1]))
    for start in range(0, len(pictures), _BLOCK):
        block = pictures[start : start + _BLOCK].astype(np.float64)
        picture_mean += counts[start : start + _BLOCK] @ block / len(vectors)
    for start in range(0, len(vectors), _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = vectors[rows] - mean
        own += block.T @ block
        both += block.T @ (pictures[picture_of[rows]] - picture_mean)
    spread, axes = np.linalg.eigh(own)  # rising
    kept = spread > spread[-1] * len(mean) * np.finfo(np.float64).eps
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=kept)
    weights = ((axes * inverse) @ axes.T @ both).T  # (F, D), of least norm where captions do not decide
    together = np.vstack([np.eye(len(mean)), weights])  # (D + F, D), the linear part of the concatenation
    principal, _, _ = np.linalg.svd(together @ (axes * np.sqrt(np.maximum(spread, 0.0))), full_matrices=False)
    largest = np.abs(principal).argmax(axis=0)
    principal *= np.where(principal[largest, np.arange(len(mean))] < 0, -1.0, 1.0)  # an axis has no sign of its own
    matrix = principal.T @ together
    return Sequential(Affine(weights, picture_mean - weights @ mean), Affine(matrix, -matrix @ mean))
