"""The choice of the snapshots that are best on dev."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from sightword.encoder.arguments import LONGEST
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import TrainingError
from sightword.evaluation.retrieval import protocols
from sightword.evaluation.semantics.datasets import RatedPairs
from sightword.features.tables.pairs import Pairs
from sightword.vse.selection.criteria import Criterion, mean_r10
from sightword.vse.selection.ensemble import ensemble
from sightword.vse.selection.settings import SelectSettings
from sightword.vse.training.snapshots import Recall, Snapshots, validate

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """The chosen ensemble, and its scores."""

    encoder: SentenceEncoder
    epochs: list[int]
    """Epochs of the chosen snapshots, the best first."""
    recall: dict[int, float]
    """Mean recall@10 of both directions on dev, in percent, for each snapshot's epoch; empty without a picture side."""
    score: dict[int, float]
    """The score that the choice compares (:class:`Criterion`), for each snapshot's epoch."""
    ensemble: dict[str, Any]
    """The ensemble's own retrieval score on dev; empty without a side of pictures."""
    ensemble_score: float | None
    """The ensemble's own score by the criterion; None without a side of pictures."""


def choose(
    snapshots: Snapshots,
    dev: Pairs,
    settings: SelectSettings,
    *,
    device: torch.device,
    recall: Mapping[int, Recall] | None = None,
    pairs: RatedPairs | None = None,
    beside: Sequence[SentenceEncoder] = (),
    lexical: SentenceEncoder | None = None,
) -> Choice:
    """Make the ensemble of the best snapshots, and measure it (Merkx & Frank 2019, section 3.3).

    Untrained encoders (epoch 0) are never chosen; counted n-grams, without a side of pictures, have no other epoch. Of
    two equally good snapshots the later one is chosen.

    Args:
        snapshots: the snapshots to choose from.
        dev: the split to compare on.
        settings: the parameters.
        device: the device to work on.
        recall: the recall of each snapshot on this split; None: it is measured.
        pairs: the sentence pairs that the criterion ``stsb_dev`` compares by.
        beside: encoders of other training runs.
        lexical: the part of ``select.lexical``.

    Raises:
        TrainingError: there are fewer snapshots than members.
        EncoderError: an encoder does not fit beside the ensemble.
    """
    cycle = snapshots.training["cycle"]
    first = 1 if snapshots.features_width else 0
    epochs = [epoch for epoch in snapshots.epochs if epoch >= first and epoch % cycle == 0]
    if len(epochs) < settings.members:
        raise TrainingError(
            f"select.members = {settings.members} snapshots are wanted, there are {len(epochs)} to choose from",
            todo="Train for more cycles (train.epochs, train.cycle).",
        )
    criterion = Criterion(settings.criterion, pairs)
    r10: dict[int, float] = {}
    score: dict[int, float] = {}
    for epoch in epochs if snapshots.features_width else ():
        similarity = snapshots.model.similarity
        found = recall[epoch] if recall else validate(snapshots.load(epoch).to(device), dev, similarity)
        alone = partial(ensemble, snapshots, [epoch], renormalise=False, device=device)
        r10[epoch], score[epoch] = mean_r10(found), criterion.of(found, alone)
        other = "" if criterion.name == "mean_r10" else f", {criterion.name} {score[epoch]:.1f}"
        log.info("snapshot of epoch %d: mean recall@10 %.1f on %s%s", epoch, r10[epoch], settings.split, other)
    chosen = sorted(epochs, key=lambda epoch: (-score.get(epoch, 0.0), -epoch))[: settings.members]
    encoder = ensemble(
        *(snapshots, chosen, settings.renormalise, device),
        beside=beside,
        lexical=lexical,
        share=settings.lexical_share,
    )
    if not encoder.features_width:
        return Choice(encoder=encoder, epochs=chosen, recall=r10, score=score, ensemble={}, ensemble_score=None)
    images, captions = encoder.encode_images(dev.features), encoder.encode(dev.texts, max_length=LONGEST)
    whole = protocols.score(captions, images, dev.image_of_caption, encoder.similarity_name)
    own = criterion.of(whole, lambda: encoder)
    return Choice(encoder=encoder, epochs=chosen, recall=r10, score=score, ensemble=whole, ensemble_score=own)
