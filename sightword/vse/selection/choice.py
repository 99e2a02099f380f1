"""The choice of the snapshots that are best on dev, the encoder made of them, and the scores of every kept epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.arguments import LONGEST
from sightword.encoder.combination import check_joined
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError, TrainingError
from sightword.evaluation.retrieval import protocols
from sightword.evaluation.semantics.datasets import missing_file
from sightword.evaluation.semantics.evaluation import evaluate
from sightword.features.tables.origin import other_kind
from sightword.features.tables.pairs import Pairs
from sightword.model.shape import TfidfShape
from sightword.vse.selection.settings import EpochsSettings, SelectSettings
from sightword.vse.training.snapshots import DEPTHS, DIRECTIONS, Recall, Snapshots, count, framed, validate

log = logging.getLogger(__name__)

LONGEST_NGRAM, WEIGHTS = 4, 16_384
"""Tokens of the longest n-grams of a lexical part, and the number of their weights."""


@dataclass(frozen=True)
class Choice:
    """The chosen ensemble, and its scores."""

    encoder: SentenceEncoder
    epochs: list[int]
    """Epochs of the chosen snapshots, the best first."""
    recall: dict[int, float]
    """Mean recall@10 of both directions on dev, in percent, for each snapshot's epoch; empty without a picture side."""
    score: dict[int, float]
    """The score by the criterion, for each snapshot's epoch."""
    ensemble: dict[str, Any]
    """The ensemble's retrieval score on dev; empty without a side of pictures."""
    ensemble_score: float | None
    """The ensemble's score by the criterion; None without a side of pictures."""


def choose(
    snapshots: Snapshots,
    dev: Pairs,
    settings: SelectSettings,
    *,
    device: torch.device,
    recall: Mapping[int, Recall] | None = None,
    beside: Sequence[SentenceEncoder] = (),
    lexical: SentenceEncoder | None = None,
) -> Choice:
    """Make the ensemble of the best snapshots, and measure it (Merkx & Frank 2019, section 3.3).

    Untrained encoders (epoch 0) are never chosen; counted n-grams, without a side of pictures, have no other epoch. Of
    two equally good snapshots the later is chosen.

    Args:
        snapshots: the snapshots to choose from.
        dev: the split to compare on.
        settings: the parameters.
        device: the device to work on.
        recall: the recall of each snapshot on this split; None: it is measured.
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
            todo="Lower select.members, or train for more cycles (train.epochs, train.cycle).",
        )
    name = settings.criterion
    r10: dict[int, float] = {}
    score: dict[int, float] = {}
    for epoch in epochs if snapshots.features_width else ():
        known = recall[epoch] if recall else validate(snapshots.load(epoch).to(device), dev, snapshots.model.similarity)
        r10[epoch] = mean_r10(known)
        score[epoch] = _RECALLS[name](known)
        other = "" if name == "mean_r10" else f", {name} {score[epoch]:.1f}"
        log.info("snapshot of epoch %d: mean recall@10 %.1f on dev%s", epoch, r10[epoch], other)
    chosen = sorted(epochs, key=lambda epoch: (-score.get(epoch, 0.0), -epoch))[: settings.members]
    encoder = ensemble(
        snapshots, chosen, settings.renormalise, device, beside=beside, lexical=lexical, share=settings.lexical_share
    )
    if not encoder.features_width:
        return Choice(encoder, chosen, r10, score, {}, None)
    images, captions = encoder.encode_images(dev.features), encoder.encode(dev.texts, max_length=LONGEST)
    whole = protocols.score(captions, images, dev.image_of_caption, encoder.similarity_name)
    return Choice(encoder, chosen, r10, score, whole, _RECALLS[name](whole))


def mean_r10(recall: Mapping[str, Any]) -> float:
    """Return the mean recall@10 of both directions, in percent."""
    return float(recall["caption_to_image"]["r10"] + recall["image_to_caption"]["r10"]) / 2


def _rsum(recall: Mapping[str, Any], *directions: str) -> float:
    return float(sum(sum(recall[direction][f"r{k}"] for k in DEPTHS) for direction in directions))


_RECALLS: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "mean_r10": mean_r10,
    "caption_to_image_rsum": lambda recall: _rsum(recall, "caption_to_image"),
    "rsum": lambda recall: _rsum(recall, *DIRECTIONS),
}
"""The score that the choice compares, by the name of ``select.criterion``; more is better."""


def ensemble(
    snapshots: Snapshots,
    epochs: list[int],
    renormalise: bool,
    device: torch.device,
    *,
    beside: Sequence[SentenceEncoder] = (),
    lexical: SentenceEncoder | None = None,
    share: float = 0.0,
) -> SentenceEncoder:
    """Return the sum of the snapshots of some epochs, in their order, joined with encoders of other training runs, and
    with a lexical part of this share.

    Raises:
        EncoderError: a snapshot cannot be loaded, or an encoder does not fit beside it.
    """
    pictured = [other.notes.get("features", {}) for other in beside if other.features_width]
    networks = [snapshots.load(epoch).to(device) for epoch in epochs]
    notes = {
        "epochs": epochs,
        "training": snapshots.training,
        "features": next(iter(pictured), {}) if not snapshots.features_width else snapshots.features,
        "captions_sha256": snapshots.captions_sha256,
    }
    own = SentenceEncoder(
        parts_of(networks, snapshots.vocabulary, snapshots.model), renormalise=renormalise, notes=notes
    )
    parts: list[SentenceEncoder] = [own, *beside]
    shares: list[float] = []
    if lexical:
        shares = [*[(1 - share) / len(parts)] * len(parts), share]
        parts.append(lexical)
    return SentenceEncoder(parts, "join", renormalise=True, notes=notes, shares=shares) if len(parts) > 1 else own


def lexical_part(
    width: int, rows: Sequence[npt.NDArray[np.int32]], vocabulary: Vocabulary, *, device: torch.device
) -> SentenceEncoder:
    """Return n-grams weighted by their frequency in these captions, as an encoder.

    Args:
        width: numbers of an embedding.
        rows: the token ids of the training captions.
        vocabulary: the vocabulary of the ids.
        device: where the encoder is.
    """
    shape = framed(TfidfShape(width, LONGEST_NGRAM, WEIGHTS), vocabulary)
    network = count(shape, [row.astype(np.int64) for row in rows], vocabulary)
    return SentenceEncoder(parts_of([network], vocabulary, shape)).to(device)


def read_beside(
    folder: Path, names: Sequence[str], snapshots: Snapshots, *, device: torch.device
) -> list[SentenceEncoder]:
    """Return saved encoders of a folder, each from another training run on what the snapshots were trained on.

    Equal captions make sure that no picture of dev or test was in the other training. An encoder without a
    picture side fits any features.

    Raises:
        EncoderError: there is no such encoder, it is damaged, or it was trained on other captions, on features of
            another kind, or for another similarity than the cosine.
    """
    encoders = []
    for name in names:
        place = folder / name
        if not (place / "encoder.json").is_file():
            known = ", ".join(sorted(path.parent.name for path in folder.glob("*/encoder.json"))) or "none yet"
            todo = f"Copy models/encoder of the other training run there, and run `dvc add {place}`."
            raise EncoderError("is no folder of an encoder (select.beside)", where=place, expected=known, todo=todo)
        encoder = SentenceEncoder.load(place, device=str(device))
        if encoder.notes.get("captions_sha256") != snapshots.captions_sha256:
            raise EncoderError(
                "was trained on other captions, perhaps on pictures of dev or test (captions_sha256)",
                where=place,
                expected=snapshots.captions_sha256,
                todo="Train that encoder on the same data/captions/captions.parquet.",
            )
        trained = encoder.notes.get("features") or {}
        both = encoder.features_width and snapshots.features_width  # without a picture side it fits any
        if both and (
            other := other_kind(trained, encoder.features_width, snapshots.features, snapshots.features_width)
        ):
            what, value, expected = other
            raise EncoderError(
                f"was trained on features of another kind: {what} {value!r}",
                where=place,
                expected=repr(expected),
                todo="Train that encoder on the same features.",
            )
        similarity = snapshots.model.similarity
        check_joined(encoder, snapshots.vocabulary, similarity, snapshots.features_width, where=place)
        encoders.append(encoder)
    return encoders


class Measured(NamedTuple):
    """The scores of the encoder of an epoch."""

    epoch: int
    r10: dict[str, float | None]
    """Recall@10 on dev for each direction, in percent; None without a side of pictures."""
    pearson: dict[str, float | None]
    """100 times Pearson's r of each task: the mean over its subtasks, or r of its test pairs. None if r is not defined:
    all pairs have the same cosine."""


def measure_epochs(
    snapshots: Snapshots, settings: EpochsSettings, *, device: torch.device, progress: bool = False
) -> list[Measured]:
    """Measure the encoder of every kept epoch, or of each N-th, in their order (Merkx & Frank 2019, Figure 4).

    Recall on dev comes from training.

    Raises:
        EncoderError: a snapshot cannot be loaded.
        SemanticsError: a task cannot be read (with file and line).
    """
    tasks, measured = [], []
    for task in settings.tasks:
        gone = missing_file(task, Path(settings.data)) if settings.missing == "skip" else None
        if gone is None:
            tasks.append(task)
        else:
            log.warning("%s left out: %s does not exist", task, gone)
    epochs = snapshots.epochs[::-1][:: settings.every][::-1]
    for epoch in tqdm(epochs, desc="epochs", unit="epoch", disable=None if progress else True):
        encoder = ensemble(snapshots, [epoch], renormalise=False, device=device)
        encode = partial(encoder.encode, max_length=LONGEST)
        scores = evaluate(encode, tasks, settings.data, trained_head=False).metrics if tasks else {}
        # An STS task has the mean of its subtasks, the others their cosine.
        by_task = {task: (entry.get("mean") or entry["cosine"])["pearson"] for task, entry in scores.items()}
        r10 = {direction: snapshots.recall[epoch].get(direction, {}).get("r10") for direction in DIRECTIONS}
        measured.append(Measured(epoch, r10, {task: None if r is None else 100 * r for task, r in by_task.items()}))
    return measured


def rows(measured: list[Measured], tasks: list[str]) -> tuple[list[str], list[list[object]]]:
    """Return the header and the rows, a row an epoch, of the table ``plots/epochs/epochs.tsv``.

    ``semantics`` is the mean over the tasks. A value is None if it is not defined or the files of a task are missing.
    """
    header = ["epoch", *(f"{direction}_r10" for direction in DIRECTIONS), "semantics", *tasks]
    lines: list[list[object]] = []
    for epoch, r10, scores in measured:
        known = [value for value in scores.values() if value is not None]
        mean = sum(known) / len(known) if known and len(known) == len(scores) else None
        lines.append([epoch, *r10.values(), mean, *map(scores.get, tasks)])
    return header, lines
