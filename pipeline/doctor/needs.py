"""How much disk and memory a run with the parameters of now takes, reckoned before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pipeline.doctor.context import Situation, precomputed_shape
from pipeline.doctor.corpus_size import CorpusSize
from sightword import machine

Place = Literal["the project", "the store", "the scratch folder"]

HDF5 = 9_700
"""Bytes of ``features.h5`` besides its tables."""
SHA256 = 64
TABLES = 3_000
"""Bytes a picture of all the small tables: captions, ids, lists of the best ten, figures."""
RANDOM = 8_000
"""Bytes of a checkpoint that hold random states and losses."""
HEADER = 2_000
"""Bytes that name the tensors of a snapshot."""

# Measured as the most resident memory of the stages on a processor; tests hold them to what real runs take.
TORCH = 450e6
"""A process with torch, and little data."""
WEIGHTS_IN_TRAINING = 8
"""Copies of the weights at the worst moment: gradients, Adam's two, and a checkpoint being written."""
STATES = 6.5
"""States of the recurrent layer that a batch holds at each token."""
FEATURES_IN_TRAINING = 4
"""Copies of the features at the worst moment, when each is compared with all others."""
CAPTIONS_IN_TRAINING = 10_000
"""Bytes of a picture's captions in memory."""
NETWORK_IN_EXTRACTION = 2.5
"""Copies of the network's weights."""
THREAD_IN_EXTRACTION = 150e6
"""A picture on its way through the network."""
RESIZING = 170e6
"""A process that decodes pictures of an ordinary size."""


@dataclass(frozen=True)
class Item:
    """Something that a run writes."""

    what: str
    stage: str
    place: Place
    bytes: float
    path: str = ""
    """Where in the project; it goes into DVC's cache too."""


@dataclass(frozen=True)
class Memory:
    """What a stage holds at most."""

    stage: str
    bytes: float
    on_device: float = 0.0
    """Of it, what would be in a GPU's memory instead."""


def width(situation: Situation) -> int | None:
    """Numbers in a picture's features; None where that is not known."""
    settings = situation.section("features")
    if settings is None or situation.project is None:
        return None
    if settings.source == "precomputed":
        shape = precomputed_shape(situation.project / settings.inputs / settings.precomputed)
        return int(shape[1]) if shape and len(shape) == 2 else None
    found = situation.facts("torch").get("dimension")
    return None if found is None else int(found)


def snapshots(train: Any) -> int:
    """How many snapshots a training keeps."""
    return int(train.epochs if train.snapshots == "epoch" else train.epochs // train.cycle)


def snapshot_bytes(facts: dict[str, Any]) -> float:
    """Of a snapshot's file."""
    return float(facts["encoder_bytes"] + HEADER)


def checkpoint_bytes(facts: dict[str, Any], train: Any) -> float:
    """Of the file that a half-done training keeps: the encoders, Adam's two states of each weight, the average."""
    average = facts["encoder_bytes"] if train.average != "none" else 0
    return float(facts["encoder_bytes"] + 2 * facts["weight_bytes"] + average + RANDOM)


def feature_bytes(corpus: CorpusSize, numbers: int) -> float:
    """Of ``features.h5``."""
    return float(corpus.pictures * (4 * numbers + SHA256 + corpus.id_length) + HDF5)


def disk(situation: Situation, corpus: CorpusSize) -> list[Item]:
    """What a run that computes everything writes."""
    facts, numbers = situation.facts("torch"), width(situation)
    train, select = situation.section("train"), situation.section("select")
    items = [
        Item("resized pictures", "resize", "the project", corpus.pictures * corpus.resized, "data/resized"),
        Item("tables and figures", "report", "the project", 1e6 + TABLES * corpus.pictures),
    ]
    if situation.section("corpus").format == "sample":
        items.append(Item("drawn pictures", "corpus", "the project", 23_000.0 * corpus.pictures, "data/corpus"))
    if numbers:
        items.append(Item("features", "features", "the project", feature_bytes(corpus, numbers), "data/features"))
        if situation.section("features").source == "extract":
            items.append(Item("computed features", "features", "the store", corpus.pictures * (4.0 * numbers + SHA256)))
    if "encoder_bytes" in facts:
        one, kept = snapshot_bytes(facts), snapshots(train)
        items += [
            Item(f"{kept} snapshots", "train", "the project", kept * one, "models/snapshots"),
            Item("the encoder", "select", "the project", select.members * one, "models/encoder"),
            # Until the new checkpoint is whole, the earlier one stays.
            Item(
                "a half-done training", "train", "the scratch folder", kept * one + 2 * checkpoint_bytes(facts, train)
            ),
        ]
    return items


def memory(situation: Situation, corpus: CorpusSize, here: machine.Machine) -> list[Memory]:
    """What the three stages that take most hold at their worst moment."""
    facts, numbers = situation.facts("torch"), width(situation)
    found = [Memory("resize", RESIZING * (1 + here.workers))]
    if network := facts.get("network_bytes"):
        working = NETWORK_IN_EXTRACTION * network + here.threads * THREAD_IN_EXTRACTION
        found.append(Memory("features", TORCH + working + 2_000.0 * corpus.pictures, working))
    if numbers and "encoder_bytes" in facts:
        train = situation.section("train")
        states = STATES * 4 * train.batch * corpus.longest * train.width
        weights = WEIGHTS_IN_TRAINING * facts["encoder_bytes"]
        features = FEATURES_IN_TRAINING * 4 * numbers * corpus.pictures
        whole = TORCH + states + weights + features + CAPTIONS_IN_TRAINING * corpus.pictures
        found.append(Memory("train", whole, states + weights + 4.0 * numbers * corpus.pictures))
    return found
