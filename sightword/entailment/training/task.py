"""The training run of the encoder of sentence pairs: batches, loss, and accuracy on dev."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sightword.captions.vocabulary import Vocabulary
from sightword.compute.devices import Adam, move
from sightword.encoder.parts import Part
from sightword.entailment.data.pairs import SentencePairs
from sightword.entailment.settings import EntailSettings
from sightword.entailment.training.energies import margin_loss, pair_energies, torch_energies
from sightword.errors import SemanticsError, TrainingError
from sightword.evaluation.binary import best_threshold
from sightword.messages import quote
from sightword.model.embedding import embed_captions
from sightword.model.encoders import CaptionEncoder, Encoders, initialise
from sightword.model.shape import RecurrentShape, Shape
from sightword.training.checkpoint import Checkpoint
from sightword.training.engine import Task, Tensors, Validation, run

log = logging.getLogger(__name__)

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class EncodedPairs:
    """N pairs of M different sentences."""

    sentences: list[Rows]  # the token ids of each of the M sentences, sorted by their first place among the pairs
    premises: Rows  # (N,) places in `sentences`
    hypotheses: Rows  # (N,) places in `sentences`
    entailed: NDArray[np.bool_]  # (N,) whether the premise entails the hypothesis

    def __len__(self) -> int:
        return len(self.entailed)

    @classmethod
    def of(cls, pairs: SentencePairs, vocabulary: Vocabulary) -> EncodedPairs:
        """Encode pairs; sentences with equal ids are one.

        Raises:
            SemanticsError: a sentence has no token after normalisation.
        """
        place_of: dict[bytes, int] = {}
        known: dict[str, int] = {}
        sentences: list[Rows] = []

        def place(text: str) -> int:
            if text not in known:
                ids = np.asarray(vocabulary.encode(text), np.int64)
                if not len(ids):
                    what = f"the sentence {quote(text)} has no {vocabulary.unit} after normalisation"
                    raise SemanticsError(what, todo="Remove the pair from its source, or normalise less.")
                known[text] = place_of.setdefault(ids.tobytes(), len(sentences))
                if known[text] == len(sentences):
                    sentences.append(ids)
            return known[text]

        both = [(place(one), place(other)) for one, other in zip(pairs.premises, pairs.hypotheses, strict=True)]
        premises, hypotheses = np.array(both, np.int64).T
        return cls(sentences, premises, hypotheses, pairs.entailed)


def batches(pairs: EncodedPairs, *, size: int, seed: int, epoch: int) -> list[Rows]:
    """Return the rows of the pairs in each minibatch of an epoch, counted from 0; the last batch has the rest."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))
    return np.split(random.permutation(len(pairs)), range(size, len(pairs), size))


def shape_of(settings: EntailSettings, start: Part | None = None) -> Shape:
    """Return the shape of the network, as a saved encoder keeps it; with a start, the start's, but for its vectors."""
    vectors: dict[str, Any] = {
        "similarity": "order" if settings.energy == "order" else "cosine",
        "scaled": settings.normalise == "l2" or settings.energy == "symmetric",
    }
    if start is not None:
        return replace(start.shape, **vectors)
    return RecurrentShape(settings.embedding, settings.hidden, **vectors)


def build(settings: EntailSettings, tokens: int, start: Part | None = None) -> CaptionEncoder:
    """Return a new network with the weights of a start, or with initial ones drawn from torch's generator."""
    shape = shape_of(settings, start)
    if start is not None:
        captions = CaptionEncoder(tokens, shape)
        captions.load_state_dict(start.captions.state_dict())
        return captions
    encoders = Encoders(tokens, 1, shape)  # the rules of initialisation draw for both sides
    initialise(encoders, "order_embeddings")
    return encoders.captions


def train(
    settings: EntailSettings, training: EncodedPairs, dev: EncodedPairs, *, tokens: int, device: torch.device,
    start: Part | None = None, checkpoint: Checkpoint | None = None, progress: bool = False,
) -> PairTask:  # fmt: skip
    """Train the encoder of both sentences (Vendrov et al. 2016, sections 5.1 and 5.3), and return the finished run.

    It has the curves, and the network with the best accuracy on dev, the first of several. ``tokens`` is the number of
    ids, padding and unknown included; training goes on from ``start``.

    Raises:
        TrainingError: the loss or an embedding of dev is not finite.
    """
    task = PairTask(settings, training, dev, tokens, device, start)
    run(task, checkpoint, bar=progress)
    task.captions.load_state_dict(task.best)
    always = 100.0 * max(float(dev.entailed.mean()), 1.0 - float(dev.entailed.mean()))
    if task.progress.best <= always:
        log.warning(
            "train: the best accuracy on dev (%.2f %%) is that of one answer for all pairs, so the encoder learned "
            "nothing. Look at train.rate, train.margin and train.epochs.",
            task.progress.best,
        )
    return task


class PairTask(Task[EntailSettings]):
    """A training run of sentence pairs in progress."""

    points = 20
    advice = "Lower train.rate, or look at train.clip and train.margin."

    def __init__(
        self, settings: EntailSettings, training: EncodedPairs, dev: EncodedPairs, tokens: int, device: torch.device,
        start: Part | None = None,
    ) -> None:  # fmt: skip
        self.settings, self.training, self.dev = settings, training, dev
        torch.manual_seed(settings.seed)
        self.captions = captions = build(settings, tokens, start).to(device)
        self.epoch, self.order = 0, self._order(0)
        super().__init__(
            settings, steps=settings.epochs * len(self.order), every=settings.validate_every, modules=captions,
            optimiser=Adam(captions.parameters(), lr=settings.rate, fused=True), device=device,
        )  # fmt: skip

    def _order(self, epoch: int) -> list[Rows]:
        """Return the batches of an epoch, counted from 0."""
        return batches(self.training, size=self.settings.batch, seed=self.settings.seed, epoch=epoch)

    def step(self, number: int) -> dict[str, torch.Tensor]:
        """Train on batch ``number``."""
        epoch, place = divmod(number, len(self.order))
        if epoch != self.epoch:
            self.epoch, self.order = epoch, self._order(epoch)
        return {"loss": self.learn(self.order[place])}

    def learn(self, rows: Rows) -> torch.Tensor:
        """Train on some pairs, and return the loss, a scalar on the device: nothing here waits for it.

        Each different sentence of the batch is encoded once, premise or hypothesis.
        """
        settings, device = self.settings, self.device
        both = np.concatenate([self.training.premises[rows], self.training.hypotheses[rows]])
        places, inverse = np.unique(both, return_inverse=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
            vectors = self.captions.embed([self.training.sentences[place] for place in places])
        premises, hypotheses = move(torch.from_numpy(inverse), device).view(2, -1)
        energies = torch_energies(settings.energy, vectors[premises], vectors[hypotheses])
        entailed = move(torch.from_numpy(self.training.entailed[rows]), device)
        loss = margin_loss(energies, entailed, margin=settings.margin, reduction=settings.reduction)
        return self.descend(loss, settings.clip)

    def validate(self) -> Validation:
        """Measure the accuracy on dev with the threshold that suits dev best.

        Raises:
            TrainingError: an embedding is not finite.
        """
        dev, done = self.dev, self.progress.steps
        vectors = embed_captions(self.captions, dev.sentences)
        energies = pair_energies(self.settings.energy, vectors[dev.premises], vectors[dev.hypotheses])
        if not math.isfinite(energies.sum()):
            raise TrainingError(f"embeddings of dev are not finite at batch {done}", todo="Lower train.rate.")
        threshold, accuracy = best_threshold(energies, dev.entailed)
        self.progress.add("dev", "accuracy", accuracy)
        return Validation(accuracy, {"threshold": threshold})

    def weights(self) -> Tensors:
        """Return the weights of the captions."""
        return self.captions.state_dict()
