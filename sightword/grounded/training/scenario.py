"""One scenario: its start, its losses of text and pictures, and the encoder that comes of it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.derived import expand
from sightword.encoder.parts import Part
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.encoder.word_vectors import read_vectors
from sightword.errors import EncoderError, TrainingError
from sightword.grounded.skipthought.batches import batches, examples
from sightword.grounded.skipthought.network import Neighbours, SkipThought, build, shape_of
from sightword.grounded.skipthought.saved import load
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.grounded.training import assembly
from sightword.grounded.training.batches import Batch, Described, Rows, check
from sightword.grounded.training.network import Network
from sightword.grounded.training.settings import Scenario
from sightword.grounded.training.task import Extra, GroundingTask, empty
from sightword.io.files import Pathish
from sightword.text.storage import Text
from sightword.training.checkpoint import Checkpoint, Progress
from sightword.training.engine import run

log = logging.getLogger(__name__)

_AS_TEXT = 9
"""Stream of random numbers of the order of captions as text."""


@dataclass(frozen=True, eq=False)
class Textual:
    """The encoder T of text, and what it was trained with."""

    part: Part
    settings: SkipthoughtSettings
    network: SkipThought | Neighbours
    """T's encoder with its decoders; its own copy of the weights."""
    text: Text


@dataclass(frozen=True, eq=False)
class Grounded:
    """The result of a scenario."""

    encoder: SentenceEncoder
    progress: Progress
    facts: dict[str, Any]


def read_textual(folder: Pathish, text: Text) -> Textual:
    """Read the folder that the stage skipthought wrote.

    Raises:
        EncoderError: the encoder is missing or damaged, or reads another vocabulary than the text's.
    """
    place = Path(folder)
    part = SentenceEncoder.load(place / "encoder").leaves[0]
    if part.vocabulary != text.vocabulary:
        todo = "Run the stage skipthought again (`dvc repro grounded/dvc.yaml:skipthought`)."
        raise EncoderError("reads another vocabulary than the text has", where=place / "encoder", todo=todo)
    network = load(place)
    return Textual(part, network.settings, network, text)


def ground(
    scenario: Scenario,
    seed: int,
    textual: Textual,
    training: Described,
    dev: Described | None,
    *,
    device: torch.device,
    start: Part | None = None,
    notes: dict[str, Any] | None = None,
    checkpoint: Checkpoint | None = None,
    bar: bool = False,
) -> Grounded:
    """Train a scenario, and return its encoder.

    Args:
        scenario: the parameters.
        seed: the seed of initial weights, batches and controls.
        textual: the encoder T.
        training: the captions and pictures to learn from, with the ids of the start's vocabulary.
        dev: captions and pictures whose losses are measured; None for none.
        device: the device to work on.
        start: the saved encoder that the scenario names.
        notes: kept in the encoder's folder.
        checkpoint: the place to save the state in, and to resume from.
        bar: show a progress bar on a terminal.

    Raises:
        TrainingError: the losses cannot be computed, or are not finite.
        EncoderError: the file of word vectors does not suit the encoder.
        SemanticsError: the file of word vectors cannot be read.
    """
    notes, progress = dict(notes or {}), Progress(curves=empty())
    own, network = _own(scenario, seed, textual, start)
    facts: dict[str, Any] = {"weights": 0}
    if scenario.expansion:  # a file that does not suit is reported before the training run
        words, vectors = read_vectors(scenario.expansion)
        expand(own, words, vectors, where=scenario.expansion)
    if scenario.sequential:
        if scenario.pictures == "shuffled" or scenario.clusters == "shuffled":
            training = training.controlled(scenario, seed)
        encoder = assembly.predicted(own, training, scenario, notes)
    elif not scenario.trains:
        encoder = assembly.plain([*_before(scenario, textual), own], notes)
    else:
        check(training, scenario)
        modules = Network(own.captions, own.shape.width, training.features.shape[1], scenario)
        extra, others = _extra(scenario, seed, textual, training, own, network)
        task = GroundingTask(scenario, seed, modules, training, dev, device, extra=extra, others=others)
        facts["weights"] = sum(weights.numel() for weights in task.trained)
        run(task, checkpoint, bar=bar)
        progress = task.progress
        encoder = assembly.trained(_before(scenario, textual), own, modules.cpu(), notes)
    if scenario.expansion:
        found = {part: expand(part, words, vectors, where=scenario.expansion) for part in encoder.leaves}
        first = found[encoder.leaves[0]]
        facts |= {"expansion_shared": first.shared, "expansion_added": first.added}
        encoder = encoder.with_parts(lambda part: found[part].part)
    return Grounded(encoder, progress, facts)


def _before(scenario: Scenario, textual: Textual) -> list[Part]:
    return [textual.part] if scenario.concatenate else []


def _own(
    scenario: Scenario, seed: int, textual: Textual, start: Part | None
) -> tuple[Part, SkipThought | Neighbours | None]:
    """Return the part that a scenario trains, and the network of text that shares its encoder."""
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
    scenario: Scenario,
    seed: int,
    textual: Textual,
    training: Described,
    own: Part,
    network: SkipThought | Neighbours | None,
) -> tuple[dict[str, Extra], nn.ModuleDict | None]:
    """Return the losses with decoders, and the modules that they train besides the encoder."""
    found: dict[str, Extra] = {}
    others: dict[str, nn.Module] = {}
    for name, weight in (("text", scenario.text), ("captions_as_text", scenario.captions_as_text)):
        if not weight:
            continue
        assert network is not None
        if network.settings.objective == "none":
            todo = f"Set {name} to 0, or choose an objective of skipthought."
            raise TrainingError(f"{name} has the weight {weight:g}, and the text has no objective", todo=todo)
        network.settings = network.settings.model_copy(update={"precision": scenario.precision})
        if name == "text":
            done = network.settings.steps if scenario.start == "skipthought" else 0  # T goes on where it stopped
            found[name] = Extra(weight, _TextLoss(network, textual.text, seed, done).loss)
        else:
            captions = _as_text(training, textual.text, seed)
            found[name] = Extra(weight, _TextLoss(network, captions, seed, 0).loss)
        others["text"] = network
    if scenario.cap2cap:
        changes: dict[str, Any] = {"objective": "skipthought", "decode": ["next"], "hidden": own.shape.width}
        changes["precision"] = scenario.precision
        decoder = build(textual.settings.model_copy(update=changes), len(own.vocabulary))
        assert isinstance(decoder, SkipThought)
        decoder.captions = own.captions
        ids, most, vocabulary = training.ids, textual.text.max_tokens, own.vocabulary

        def loss(_: int, pictures: Batch) -> torch.Tensor:
            rows = np.flatnonzero(pictures.second >= 0)
            sides = zip(pictures.first[rows], pictures.second[rows], strict=True)
            couples = in_memory([ids[row] for couple in sides for row in couple], vocabulary, most)
            return decoder.loss(couples, np.arange(0, len(couples), 2)) if len(couples) else _zero(own)

        found["cap2cap"] = Extra(scenario.cap2cap, loss, grounded=True)
        others["cap2cap"] = decoder
    return found, nn.ModuleDict(others) if others else None


def _zero(part: Part) -> torch.Tensor:
    return part.captions.embedding.weight.sum() * 0.0


class _TextLoss:
    """The loss of the text of one batch after another.

    Args:
        network: the network of text.
        text: the text.
        seed: the seed of the order.
        done: batches of the order that were read before.
    """

    def __init__(self, network: SkipThought | Neighbours, text: Text, seed: int, done: int) -> None:
        self.network, self.text, self.seed, self.done = network, text, seed, done
        examples(text, network.settings)  # too little text is reported before the training run
        self.order: Iterator[Rows] | None = None

    def loss(self, number: int, _: Batch) -> torch.Tensor:
        """Return the loss of batch ``number``; numbers rise by 1 from call to call."""
        if self.order is None:
            self.order = batches(self.text, self.network.settings, seed=self.seed, start=self.done + number)
        return self.network.loss(self.text, next(self.order))


def _as_text(training: Described, text: Text, seed: int) -> Text:
    """Return the captions as one passage, in random order."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, _AS_TEXT])))
    rows = [training.ids[row] for row in random.permutation(len(training.ids))]
    return in_memory(rows, text.vocabulary, text.max_tokens)


def in_memory(rows: list[Rows], vocabulary: Vocabulary, most: int) -> Text:
    """Return sentences as the text of one passage of training."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    tokens = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.uint32)
    nothing = np.zeros(len(rows))
    return Text(vocabulary, tokens, offsets, nothing.astype(np.int32), nothing.astype(np.uint8), max_tokens=most)
