"""The training run of a scenario: batches, losses of captions and pictures (Bordes et al. 2019, section 3.2), curves.

Rows are pictures of a batch. ``same`` is bool (B, B), true where two rows have the same picture or copies of it, the
diagonal included: such rows are not mismatches of each other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from sightword.captions.vocabulary import Vocabulary
from sightword.compute.devices import Adam, move
from sightword.encoder.parts import head
from sightword.errors import TrainingError
from sightword.features.tables.pairs import Pairs, first_copies
from sightword.grounded.skipthought.task import DECAY, DECAY_STEPS
from sightword.grounded.training.settings import Scenario
from sightword.model.encoders import CaptionEncoder
from sightword.model.losses import infonce
from sightword.model.similarity import unit, unit_rows
from sightword.training.checkpoint import Columns
from sightword.training.engine import Task

log = logging.getLogger(__name__)

Value = TypeVar("Value")

MARGIN, TEMPERATURE = 0.5, 0.05
"""Gamma of equation 2, as in the released code, and the divisor of the cosines in InfoNCE."""
CLIP = 5.0
"""Largest norm of the gradient of all weights."""
DEV_BATCHES = 32
"""The most batches of dev that a measurement reads."""
Rows = npt.NDArray[np.int64]
_CLUSTERS, _PICTURES, _ORDER, _BATCH = range(4)
"""Streams of random numbers of a seed."""


@dataclass(frozen=True, eq=False)
class Described:
    """One split: M captions as token ids, N pictures, and the picture of each caption."""

    ids: list[npt.NDArray[np.int64]]  # the token ids of each caption
    picture_of: Rows  # (M,) the picture of each caption
    features: npt.NDArray[np.float32]  # (N, F) the features of each picture
    copy_of: Rows  # (N,) the first picture with the same features: a picture and its copies have one number
    shown: Rows  # (N,) the picture whose features each picture has, by `copy_of`: another one if pictures are shuffled
    left_out: int = 0  # number of captions that were too long

    @classmethod
    def of(cls, ids: Sequence[npt.NDArray[np.int64]], picture_of: Rows, features: npt.NDArray[np.float32]) -> Described:
        """Find the copies of pictures."""
        copy_of = first_copies(features)
        return cls(list(ids), picture_of, features, copy_of, copy_of)

    def controlled(self, scenario: Scenario, seed: int) -> Described:
        """Return the split with shuffled pictures or clusters, where the scenario has these controls."""
        features, shown, picture_of = self.features, self.shown, self.picture_of
        if scenario.clusters == "shuffled":
            picture_of = _seeded(seed, _CLUSTERS).permutation(picture_of)
        if scenario.pictures == "shuffled":
            order = _seeded(seed, _PICTURES).permutation(len(features))
            features, shown = features[order], shown[order]
        return replace(self, picture_of=picture_of, features=features, shown=shown)

    @cached_property
    def captions_of(self) -> tuple[Rows, Rows]:
        """The captions sorted by picture (M,), and the start of each picture's captions (N + 1,)."""
        counts = np.bincount(self.picture_of, minlength=len(self.features))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return np.argsort(self.picture_of, kind="stable").astype(np.int64), starts

    @property
    def copies(self) -> int:
        """Number of pictures with the features of an earlier picture."""
        return len(self.features) - len(np.unique(self.copy_of))

    @property
    def single(self) -> int:
        """Number of pictures with fewer than two captions."""
        return int((np.diff(self.captions_of[1]) < 2).sum())


@dataclass(frozen=True)
class Batch:
    """B pictures, a caption of each, and another caption of each."""

    pictures: Rows  # (B,) no picture twice
    first: Rows  # (B,) a caption of each picture
    second: Rows  # (B,) another caption of each picture; -1 for a picture with one caption only
    draws: npt.NDArray[np.float32]  # (2, B, B) random numbers from 0 to 1, for the choice of mismatches


def described(pairs: Pairs, most: int, vocabulary: Vocabulary | None = None) -> Described:
    """Return captions with their pictures, without captions of ``most`` tokens or more (released code).

    The ids are those of the split, or of the ``vocabulary`` of another start. TrainingError if no caption is left.
    """
    kept = [row for row, ids in enumerate(pairs.ids) if len(ids) < most]
    if not kept:
        what = f"all {len(pairs.ids)} captions have {most} tokens or more"
        raise TrainingError(what, todo="Raise text.max_tokens.")
    pictures, picture_of = np.unique(pairs.image_of_caption[kept], return_inverse=True)
    if vocabulary is None:
        ids = [pairs.ids[row] for row in kept]
    else:
        ids = vocabulary.rows([pairs.texts[row] for row in kept])
    result = Described.of(ids, picture_of.astype(np.int64), pairs.features[pictures])
    return replace(result, left_out=len(pairs.ids) - len(kept))


def check(split: Described, scenario: Scenario) -> None:
    """Raise TrainingError if a scenario's losses cannot be computed: there are fewer pictures than a batch has, too few
    with two captions, or all have equal features.
    """
    count = len(split.features)
    if count < scenario.batch:
        todo = "Lower batch in grounded/params.yaml, or give more pictures."
        raise TrainingError(f"a batch has {scenario.batch} pictures, and training has {count}", todo=todo)
    if scenario.pairs_captions:
        paired = count - split.single
        if paired < 2:
            todo = "Set cluster and cap2cap to 0 (the perceptual loss needs one caption), or give more captions."
            need = "the cluster loss and cap2cap need two captions of a picture"
            raise TrainingError(f"{need}; {paired} of {count} pictures have them", expected="at least 2", todo=todo)
        if split.single:
            log.warning(
                "%d of %d pictures have one caption: they are left out of cluster loss and cap2cap", split.single, count
            )
    if scenario.compares_pictures:
        different = len(np.unique(split.copy_of))
        least = 3 if scenario.perceptual else 2
        if different < least or (scenario.perceptual and _one_direction(split.features)):
            what = f"the features of {count} pictures are constant ({different} different, or all in one direction)"
            raise TrainingError(what, todo="Check the features: Pearson's correlation is undefined for these.")


def batch(split: Described, scenario: Scenario, seed: int, number: int) -> Batch:
    """Return batch ``number`` of a training run, from 0; it depends on nothing else.

    An epoch is a random order of the pictures, cut into whole batches; the rest of the order is left out. The captions
    of a picture are drawn evenly.
    """
    each = len(split.features) // scenario.batch
    epoch, place = divmod(number, each)
    order = _seeded(seed, _ORDER, epoch).permutation(len(split.features))
    pictures = order[place * scenario.batch : (place + 1) * scenario.batch]
    random = _seeded(seed, _BATCH, number)
    captions, starts = split.captions_of
    counts = starts[pictures + 1] - starts[pictures]
    one = random.integers(counts)
    step = random.integers(1, np.maximum(counts, 2))
    other = np.where(counts > 1, captions[starts[pictures] + (one + step) % counts], -1)
    draws = random.random((2, len(pictures), len(pictures)), dtype=np.float32)
    return Batch(pictures, captions[starts[pictures] + one], other, draws)


def _one_direction(features: npt.NDArray[np.float32]) -> bool:
    """Return whether all features are multiples of one vector, as far as float32 can tell."""
    values = unit_rows(features[:1000].astype(np.float64))
    return bool(np.ptp(values @ values[0]) < 1e-6)


def _seeded(*seeds: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seeds)))


def cosines(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the cosine (B, N) of each row of (B, D) with each row of (N, D), in float32 or float64."""
    return unit(left, "cosine") @ unit(right, "cosine").T


def ranked(scores: torch.Tensor, same: torch.Tensor, draws: torch.Tensor | None) -> torch.Tensor:
    """Return the max-margin loss of right pairs on the diagonal against mismatches (equation 2, and the CM baseline).

    With ``draws``, the mean over rows of ``[margin - s_ii + s_ij]+`` for one mismatch j of row i, drawn evenly.
    Without, the mean over rows of the sum over all mismatches j, half of ``[margin - s_ii + s_ij]+`` and half of
    ``[margin - s_ii + s_ji]+``. Rows without a mismatch do not count; without any counted row the loss is 0.
    ``scores`` (B, B) compare the left side of row i and the right side of row j; ``draws`` (B, B) are not negative: the
    largest of a row's mismatches is taken.
    """
    weights = ~same
    if draws is not None:
        chosen = draws.masked_fill(same, -1.0).argmax(dim=1, keepdim=True)
        weights = weights & (torch.arange(len(same), device=same.device) == chosen)
    weights = weights.to(torch.float32).to(scores.dtype)
    right = scores.diagonal()[:, None]
    cost = (MARGIN - right + scores).clamp(min=0)
    if draws is None:
        cost = (cost + (MARGIN - right + scores.T).clamp(min=0)) / 2
    counted = (weights.sum(dim=1) > 0).sum()
    return (cost * weights).sum() / counted.clamp(min=1)


def cluster(
    left: torch.Tensor, right: torch.Tensor, same: torch.Tensor, draws: torch.Tensor, *, contrast: bool = False
) -> torch.Tensor:
    """Return the cluster loss of two captions (B, D) of each picture in the grounded space.

    It is :func:`ranked` for one mismatch (equation 2), or with ``contrast`` InfoNCE over the batch.
    """
    scores = cosines(left, right)
    if not len(scores):
        return scores.sum()
    if contrast:
        return infonce(scores, same, temperature=scores.new_tensor(TEMPERATURE), reduction="mean")
    return ranked(scores, same, draws)


def perceptual(sentences: torch.Tensor, pictures: torch.Tensor) -> torch.Tensor:
    """Return the perceptual loss (equation 3), a scalar: minus Pearson's correlation of the cosines of each two rows.

    Rows of ``sentences`` (B, D) are captions of the pictures (B, F). NaN if all cosines of one side are equal.
    """
    ours, theirs = cosines(sentences, sentences), cosines(pictures, pictures)
    upper, to = torch.triu_indices(len(ours), len(ours), offset=1, device=ours.device)
    ours, theirs = ours[upper, to], theirs[upper, to]
    ours, theirs = ours - ours.mean(), theirs - theirs.mean()
    return -(ours * theirs).sum() / (ours.square().sum() * theirs.square().sum()).sqrt()


class Seen(NamedTuple):
    """A batch of B pictures on the device."""

    first: torch.Tensor  # (B, D) s of a caption of each picture
    second: torch.Tensor  # (P, D) s of another caption of the pictures that have one
    paired: torch.Tensor  # int64 (P,), the rows of these pictures
    pictures: torch.Tensor  # (B, F)
    same: torch.Tensor  # bool (B, B), rows with the same picture or copies of it
    shown: torch.Tensor  # bool (B, B), rows with the same features
    draws: torch.Tensor  # float (2, B, B)


class Network(nn.Module):
    """The trained modules besides those of the text: ``width`` numbers of a sentence, ``features`` of a picture."""

    def __init__(self, captions: CaptionEncoder, width: int, features: int, scenario: Scenario) -> None:
        super().__init__()
        self.scenario = scenario
        self.captions = captions
        self.grounded = head([width, scenario.hidden, scenario.width] if scenario.has_grounded else [])
        self.visual = head([width, scenario.hidden, features] if scenario.projection else [])
        self.ranking = head([width, features] if scenario.ranking else [])

    def losses(self, seen: Seen) -> dict[str, torch.Tensor]:
        """Return the loss of each part with a weight above zero, scalars before weighting."""
        scenario, losses = self.scenario, {}
        if scenario.cluster:
            paired = seen.paired
            same, draws = (one[paired][:, paired] for one in (seen.same, seen.draws[0]))
            sides = self.grounded(seen.first[paired]), self.grounded(seen.second)
            losses["cluster"] = cluster(*sides, same, draws, contrast=scenario.cluster_loss == "infonce")
        if scenario.perceptual:
            losses["perceptual"] = perceptual(self.grounded(seen.first), seen.pictures)
        if scenario.projection:
            losses["projection"] = ranked(cosines(self.visual(seen.first), seen.pictures), seen.shown, seen.draws[1])
        if scenario.ranking:
            losses["ranking"] = ranked(cosines(self.ranking(seen.first), seen.pictures), seen.shown, None)
        return losses


@dataclass(frozen=True)
class Extra:
    """A loss besides those of pictures and captions, such as the text's."""

    weight: float
    loss: Callable[[int, Batch], torch.Tensor]
    """Maps the number of a batch, and the pictures' batch, to a scalar before weighting."""
    grounded: bool = False  # whether the loss is of the grounded side


class GroundingTask(Task[Scenario]):
    """A training run of a scenario in progress.

    The curves are ``loss``, each part of the loss before weighting; ``dev``, the same on dev; and ``norms``, the norm
    of the encoder's gradient by the text and by the grounded side, weighted and unclipped.

    ``extra`` are further losses by name, and ``others`` further modules to train; without ``dev``, nothing is measured.
    """

    points = 20
    advice = "Lower the scenario's rate, or look at the features."

    def __init__(
        self, scenario: Scenario, seed: int, network: Network, training: Described, dev: Described | None,
        device: torch.device, extra: Mapping[str, Extra] | None = None, others: nn.Module | None = None,
    ) -> None:  # fmt: skip
        self.seed, self.network = seed, network.to(device)
        modules = nn.ModuleDict({"network": self.network, **({"others": others.to(device)} if others else {})})
        self.training, self.dev = training.controlled(scenario, seed), dev
        self.extra = dict(extra or {})
        self.trained = list(modules.parameters())
        self.adam = Adam(self.trained, lr=scenario.rate, fused=True)
        super().__init__(
            scenario, steps=scenario.steps, every=scenario.validate_every, modules=modules, optimiser=self.adam,
            device=device,
        )  # fmt: skip
        self.progress.curves = empty()
        self.norms = (0.0, 0.0)
        """The norms of the last point, by the text and by the grounded side."""
        self.spoilt = torch.zeros((), device=device)
        """0, or NaN since a norm of all gradients that is not finite: clipping leaves nothing of the gradients."""

    def is_point(self, done: int) -> bool:
        """Return whether the curves of losses have a point after so many batches."""
        return done % self.points == 0 or done == self.steps

    def step(self, number: int) -> dict[str, torch.Tensor]:
        """Train on a batch of pictures and on the batches of the further losses."""
        scenario, encoder = self.settings, self.network.captions
        measure = self.is_point(number + 1)
        pictures = batch(self.training, scenario, self.seed, number)
        self.adam.zero_grad(set_to_none=True)
        losses = {name: one.loss(number, pictures) for name, one in self.extra.items() if not one.grounded}
        self._backward({name: (self.extra[name].weight, value) for name, value in losses.items()})
        before = _gradients(encoder) if measure else []
        parts = self.network.losses(self.read(self.training, pictures)) if self._sees else {}
        more = {name: one.loss(number, pictures) for name, one in self.extra.items() if one.grounded}
        weighted = {name: (float(getattr(scenario, name)), value) for name, value in parts.items()}
        self._backward(weighted | {name: (self.extra[name].weight, value) for name, value in more.items()})
        if measure:
            change = [after - earlier for after, earlier in zip(_gradients(encoder), before, strict=True)]
            self.norms = _norm(before), _norm(change)
        self.spoilt = self.spoilt + 0 * clip_grad_norm_(self.trained, CLIP)
        for group in self.adam.param_groups:
            group["lr"] = scenario.rate * DECAY ** (number / DECAY_STEPS)
        self.adam.step()
        return _in_order({name: value.detach() for name, value in (losses | parts | more).items()})

    def judge(self) -> None:
        """Raise the TrainingError of a gradient that is not finite."""
        if self.spoilt.isnan():
            raise self.diverged("norm of the gradient", max(0, self.progress.steps - self.points))

    def add_point(self) -> None:
        """Add the norms to their curves."""
        for name, norm in zip(("text", "grounded"), self.norms, strict=True):
            self.progress.add("norms", name, norm)

    def reason(self, name: str) -> str:
        """Return why a loss is not finite."""
        if name == "perceptual loss":
            pairs = "where all vectors of captions, or all pictures of a batch, are alike"
            return f": Pearson's correlation is undefined {pairs}"
        return ": the training run diverged"

    @property
    def _sees(self) -> bool:
        return bool(self.settings.cluster or self.settings.compares_pictures)

    def _backward(self, parts: Mapping[str, tuple[float, torch.Tensor]]) -> None:
        if parts:
            total = torch.stack([weight * value for weight, value in parts.values()]).sum()
            total.backward()  # type: ignore[no-untyped-call]  # torch gives it no type

    def read(self, split: Described, pictures: Batch) -> Seen:
        """Encode the captions of a batch, and move its pictures to the device."""
        device = self.device
        paired = np.flatnonzero(pictures.second >= 0) if self.settings.cluster else np.empty(0, np.int64)
        rows = np.concatenate([pictures.first, pictures.second[paired]])
        with torch.autocast(device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            vectors = self.network.captions.embed([split.ids[row] for row in rows])
        vectors = vectors.to(torch.float32)
        same, shown = (copy[pictures.pictures] for copy in (split.copy_of, split.shown))
        tables = (same[:, None] == same, shown[:, None] == shown, pictures.draws, split.features[pictures.pictures])
        same_rows, shown_rows, draws, features = (move(torch.from_numpy(table), device) for table in tables)
        first, second = vectors[: len(pictures.first)], vectors[len(pictures.first) :]
        return Seen(first, second, move(torch.from_numpy(paired), device), features, same_rows, shown_rows, draws)

    @torch.no_grad()
    def validate(self) -> None:
        """Measure the losses of dev in whole batches, the same ones each time."""
        if self.dev is None or not self._sees or len(self.dev.features) < 2:
            return
        size = min(self.settings.batch, len(self.dev.features))
        scenario = self.settings.model_copy(update={"batch": size})
        losses: dict[str, list[float]] = {}
        self.modules.eval()
        for number in range(min(DEV_BATCHES, len(self.dev.features) // size)):
            seen = self.read(self.dev, batch(self.dev, scenario, 0, number))
            for name, value in self.network.losses(seen).items():
                losses.setdefault(name, []).append(float(value))
        for name, values in _in_order(losses).items():
            if math.isfinite(mean := math.fsum(values) / len(values)):
                self.progress.add("dev", name, mean)
            else:
                log.warning(
                    "train: the %s loss of dev is undefined at batch %d (vectors or pictures of a batch are all "
                    "alike), and has no point in dev.tsv. Look at rate and margin if that goes on",
                    *(name, self.progress.steps),
                )


def empty() -> dict[str, Columns]:
    """Return the curves of a run before the first batch."""
    return {"loss": {}, "dev": {}, "norms": {"text": [], "grounded": []}}


def _in_order(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return values by loss in the order of the scenario's weights."""
    return {name: values[name] for name in Scenario.model_fields if name in values}


def _gradients(module: nn.Module) -> list[torch.Tensor]:
    """Return copies of the gradients of a module; zeros where there is none."""
    return [
        torch.zeros_like(weight) if weight.grad is None else weight.grad.detach().clone()
        for weight in module.parameters()
    ]


def _norm(gradients: list[torch.Tensor]) -> float:
    return math.hypot(*(float(torch.linalg.vector_norm(one)) for one in gradients))
