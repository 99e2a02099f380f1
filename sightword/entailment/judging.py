"""All numbers of a run: scores of the trained encoder, of baselines and of other encoders, tests, and the mistakes."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from sightword.captions.table import learned, read_texts
from sightword.encoder.arguments import LONGEST
from sightword.encoder.derived import untrained
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.entailment.classifiers import classify, energies_of, hypothesis_only, new_words
from sightword.entailment.data.pairs import LABELS, SentencePairs, in_training, premise_numbers
from sightword.entailment.settings import EntailmentSettings
from sightword.entailment.training.energies import ENERGIES, EnergyName, Floats, pair_energies
from sightword.errors import EncoderError
from sightword.evaluation.binary import Measured, best_threshold, histogram, mistakes, score
from sightword.evaluation.semantics.encoding import Embeddings, embed, inputs_of
from sightword.evaluation.semantics.results import Seen
from sightword.io.files import Pathish
from sightword.settings import BESIDE
from sightword.statistics.inference import clustered_interval, holm, mcnemar, rounded

log = logging.getLogger(__name__)

Array = NDArray[Any]
Masks = dict[str, dict[str, Array]]
"""By property and value: which (N,) pairs have the value."""

BASELINES = ("majority", "hypothesis_only", "new_words")
IN_PARTS = ("hypothesis_only", "new_words")
"""The baselines with scores by source, as the trained encoder."""
_SUMMED = ("accuracy", "f1", "auc")
TAKEN = frozenset((*ENERGIES, *BASELINES, "energy", "split", "dev", *_SUMMED, *(f"{label}_right" for label in LABELS)))
"""Names that no other encoder can have: the systems' and the keys of the summary."""
CAPTIONS = "captions.parquet"
"""The table of an encoder's training captions, beside its files."""
PARTS = (".", "_vs_", "_untrained", "_classifier")
"""Parts of the keys of the metrics, which no name of an encoder can have."""
MISTAKES = 50
"""Wrong pairs that are listed."""


@dataclass(frozen=True)
class System:
    """A system with its energies; a pair counts as entailed up to the threshold."""

    name: str  # its key in the metrics
    dev: Array  # (M,) energies of the pairs of dev
    energies: Array  # (N,) energies of the pairs that are scored
    swapped: Array  # (N,) their energies with premise and hypothesis exchanged
    threshold: float
    classes: Array | None = None
    """(N,) the judged class of each pair, its place among three; None for a system that does not tell them apart."""
    same: str | None = None  # the other system that this one is, under a second name: it is compared under that one's

    @classmethod
    def chosen(cls, name: str, energies: Sequence[Array], entailed: Array, criterion: str = "accuracy") -> System:
        """Return a system with the best threshold on dev; energies are those of the first three fields."""
        dev, judged, swapped = energies
        return cls(name, dev, judged, swapped, best_threshold(dev, entailed, criterion)[0])

    def right(self, entailed: Array) -> Array:
        """Return which (N,) pairs are judged as labelled."""
        right: Array = (self.energies <= self.threshold) == entailed
        return right


def parts(pairs: SentencePairs) -> Masks:
    """Return the pairs of each class and source; a value without pairs is left out."""
    labels, sources = np.array(pairs.labels, object), np.array(pairs.sources, object)
    classes = {name: mask for name in LABELS if (mask := labels == name).any()}
    return {"class": classes, "source": {name: sources == name for name in sorted(set(pairs.sources))}}


def judge(energies: Array, entailed: Array, masks: Masks, threshold: float, clusters: Array) -> dict[str, Any]:
    """Return the scores of pairs, as :func:`sightword.evaluation.binary.score`.

    By each property and value of the masks (:func:`parts`), such as ``found["class"]["neutral"]``, there are
    ``accuracy``, ``accuracy_ci95`` and ``pairs``. Intervals take the pairs of one of the (N,) clusters, the premises,
    as one.
    """
    right = (energies <= threshold) == entailed
    entry = score(energies, entailed, threshold) | share(right, clusters)
    for by, values in masks.items():
        entry[by] = {name: share(right[mask], clusters[mask]) for name, mask in values.items()}
    return entry


def share(right: Array, clusters: Array) -> dict[str, Any]:
    """Return the accuracy in percent of (N,) judgments that are right or wrong, with its interval over clusters."""
    interval = clustered_interval(right, clusters)
    entry = {"accuracy": 100.0 * float(right.mean()), "accuracy_ci95": interval, "pairs": len(right)}
    shares: dict[str, Any] = rounded(entry)
    return shares


def three_classes(systems: Sequence[System], pairs: SentencePairs, clusters: Array) -> dict[str, Any]:
    """Return the scores in three classes of the systems that tell them apart, under ``systems``.

    A system has those of :func:`share`, and in ``class`` those of each class; ``significance`` compares them.
    """
    labels = pairs.classes(3)
    rights = {one.name: one.classes == labels for one in systems if one.classes is not None}
    second = {one.name for one in systems if one.same is not None}
    entry = {
        name: share(right, clusters)
        | {"class": {label: share(right[mask], clusters[mask]) for label, mask in parts(pairs)["class"].items()}}
        for name, right in rights.items()
    }
    distinct = {name: right for name, right in rights.items() if name not in second}
    return {"systems": entry, "significance": significance(distinct, clusters)}


def significance(rights: Mapping[str, Array], clusters: Array) -> dict[str, dict[str, Any]]:
    """Compare all systems by twos by McNemar's test over clusters, with Holm's correction over all comparisons.

    By ``one_vs_other``: the ``difference`` of accuracies in percent, the pairs that only one judges as labelled
    (``only_first``, ``only_second``), ``p`` and ``holm``.
    """
    twos = list(combinations(rights, 2))
    tests = [mcnemar(rights[one], rights[other], clusters) for one, other in twos]
    corrected = holm([p for _, _, p in tests])
    return {
        f"{one}_vs_{other}": {
            "difference": round(100.0 * (only - only_other) / len(rights[one]), 6),
            "only_first": only,
            "only_second": only_other,
            "p": p,
            "holm": after,
        }
        for (one, other), (only, only_other, p), after in zip(twos, tests, corrected, strict=True)
    }


@dataclass(frozen=True)
class Other:
    """An encoder with its name; ``seen`` are its training captions, None if they are not known."""

    name: str
    encoder: SentenceEncoder
    seen: Seen | None


def read_others(folder: Pathish, taken: frozenset[str], device: torch.device) -> list[Other]:
    """Read each encoder in a folder of encoders, by name; files beside the folders are passed over.

    Raises:
        EncoderError: the folder is missing or an encoder itself; an encoder is damaged, or has a name in ``taken`` or
            with one of :data:`PARTS`.
    """
    place = Path(folder)
    if not place.is_dir():
        raise EncoderError("is no folder", where=place, expected="a folder with saved encoders, or without any")
    if (place / "encoder.json").exists():
        todo = "Move its files into a folder there, whose name is the system's."
        raise EncoderError("holds the files of an encoder, not folders with encoders", where=place, todo=todo)
    others = []
    for path in sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith(".")):
        if path.name in taken or any(part in path.name for part in PARTS):
            expected = f"a name without {', '.join(PARTS)}, and none of {', '.join(sorted(taken))}"
            raise EncoderError("has a name that a system cannot have", where=path, expected=expected)
        captions, encoder = path / CAPTIONS, SentenceEncoder.load(path, device=device)
        seen = Seen(learned(read_texts(captions, withheld=[BESIDE]), encoder.all_notes)) if captions.exists() else None
        others.append(Other(path.name, encoder, seen))
    return others


def energy_of(encoder: SentenceEncoder) -> tuple[EnergyName, bool]:
    """Return the energy that belongs to an encoder's similarity, and whether the sides change places.

    ``order``: a caption has smaller numbers than its pictures, and so has a hypothesis; ``reversed_order``: larger
    ones, so premise and hypothesis change places. The cosine and the dot product have the symmetric energy.
    """
    name = encoder.similarity_name
    return ("order" if name in ("order", "reversed_order") else "symmetric"), name == "reversed_order"


def energies_by(encoder: SentenceEncoder, premises: Floats, hypotheses: Floats) -> Floats:
    """Return the energies (N,) of pairs of vectors (N, D) of an encoder, by :func:`energy_of`."""
    energy, turned = energy_of(encoder)
    sides = (hypotheses, premises) if turned else (premises, hypotheses)
    return pair_energies(energy, *sides)


def measure(
    splits: Mapping[str, SentencePairs], encoder: SentenceEncoder, chosen: Mapping[str, Any], others: Sequence[Other],
    settings: EntailmentSettings, *, device: torch.device,
) -> Measured:  # fmt: skip
    """Judge all systems on test, each by its threshold from dev.

    ``splits`` are ``train``, ``dev`` and ``test``; ``chosen`` has the trained encoder's ``energy``,
    ``threshold`` and ``criterion``. Each other encoder is judged with the same network with random weights.
    """
    pairs, dev = splits["test"], splits["dev"]
    energy, criterion = str(chosen["energy"]), str(chosen["criterion"])
    judges = _Judges(splits, settings, criterion, device)
    vectors = judges.vectors(encoder)
    own = [pair_energies(energy, vectors.of(part.premises), vectors.of(part.hypotheses)) for part in judges.judged]
    systems = [System(energy, own[0], own[1], own[2], float(chosen["threshold"])), *judges.classifier(energy, vectors)]
    del vectors
    systems += judges.baselines()
    for other in others:
        systems += judges.of_encoder(other.name, other.encoder)
        systems += judges.untrained(f"{other.name}_untrained", other.encoder)
    every = parts(pairs)
    few, clusters = {"class": every["class"]}, premise_numbers(pairs.premises)
    metrics: dict[str, Any] = {"dev": {one.name: score(one.dev, dev.entailed, one.threshold) for one in systems}}
    metrics["test"] = {
        one.name: judge(
            *(one.energies, pairs.entailed, every if one.name in (energy, *IN_PARTS) else few, one.threshold, clusters)
        )
        for one in systems
    }
    metrics["swapped"] = {one.name: judge(one.swapped, pairs.entailed, few, one.threshold, clusters) for one in systems}
    if settings.classifier.classes == 3:
        metrics["three_classes"] = three_classes(systems, pairs, clusters)
    metrics["leak"] = {"premises_in_training": _percent(in_training(pairs, splits["train"]))}
    rights = {one.name: one.right(pairs.entailed) for one in systems if one.same is None}
    metrics["significance"] = significance(rights, clusters)
    if others:
        same = {one.name: one.same or one.name for one in systems}
        metrics["encoders"] = {
            one.name: {"energy": energy_of(one.encoder)[0], "untrained": same[f"{one.name}_untrained"]}
            for one in others
        }
        metrics["unseen"] = {
            one.name: _unseen(one, pairs, _beside(one.name, energy, systems)) for one in others if one.seen is not None
        }
    entries = metrics["test"]
    summary = {"energy": energy, "split": "test", "dev": metrics["dev"][energy]["accuracy"]}
    summary |= {key: entries[energy][key] for key in _SUMMED}
    summary |= {f"{name}_right": value["accuracy"] for name, value in entries[energy]["class"].items()}
    summary |= {one.name: entries[one.name]["accuracy"] for one in systems[1:]}
    wrong = _mistakes(pairs, own[1], systems[0].threshold)
    return Measured(metrics, summary, histogram(own[1], pairs.entailed), wrong, _scores(pairs, systems))


@dataclass(frozen=True)
class _Judges:
    """Makes systems for the same splits."""

    splits: Mapping[str, SentencePairs]
    settings: EntailmentSettings
    criterion: str
    device: torch.device
    drawn: list[tuple[SentenceEncoder, list[System]]] = field(default_factory=list)
    """Encoders whose networks with random weights are judged."""

    @property
    def judged(self) -> tuple[SentencePairs, SentencePairs, SentencePairs]:
        """The pairs of dev, those of test, and these with premise and hypothesis exchanged."""
        asked = self.splits["test"]
        return self.splits["dev"], asked, replace(asked, premises=asked.hypotheses, hypotheses=asked.premises)

    def _system(self, name: str, energies: Sequence[Array]) -> System:
        log.info("evaluate: %s is judged", name)
        return System.chosen(name, energies, self.splits["dev"].entailed, self.criterion)

    def _by_logits(self, name: str, logits: Sequence[Array]) -> System:
        system = self._system(name, [energies_of(part) for part in logits])
        return replace(system, classes=logits[1].argmax(1)) if self.settings.classifier.classes == 3 else system

    def baselines(self) -> list[System]:
        """Return the baselines in the order of :data:`BASELINES`."""
        (dev, asked, _), classes = self.judged, self.settings.classifier.classes
        alone = hypothesis_only(
            self.splits["train"], dev, self.judged,
            features=self.settings.words, classes=classes, seed=self.settings.seed,
        )  # fmt: skip
        most = self._system(BASELINES[0], [np.zeros(len(part)) for part in self.judged])  # accepts all pairs or none
        if classes == 3:
            most = replace(most, classes=np.full(len(asked), np.bincount(dev.classes(3)).argmax()))
        regression = self._by_logits(BASELINES[1], alone)
        return [most, regression, self._system(BASELINES[2], [new_words(part) for part in self.judged])]

    def vectors(self, encoder: SentenceEncoder) -> Embeddings:
        """Return the vectors of all sentences; those of training only for the classifier."""
        names = ("train", "dev", "test") if self.settings.classifier.epochs else ("dev", "test")
        parts = [self.splits[name] for name in names]
        encode = functools.partial(encoder.encode, max_length=LONGEST)
        return embed(encode, [text for part in parts for text in (*part.premises, *part.hypotheses)])

    def of_encoder(self, name: str, encoder: SentenceEncoder) -> list[System]:
        """Judge an encoder by the energy of its similarity, and by the classifier on its vectors."""
        vectors = self.vectors(encoder)
        energies = [
            energies_by(encoder, vectors.of(part.premises), vectors.of(part.hypotheses)) for part in self.judged
        ]
        return [self._system(name, energies), *self.classifier(name, vectors)]

    def untrained(self, name: str, encoder: SentenceEncoder) -> list[System]:
        """Judge the network of an encoder with random weights; networks that are alike have the same ones."""
        for one, drawn in self.drawn:
            if _alike(one, encoder):
                return [
                    replace(system, name=name + system.name.removeprefix(drawn[0].name), same=system.name)
                    for system in drawn
                ]
        self.drawn.append((encoder, self.of_encoder(name, untrained(encoder, self.settings.seed))))
        return self.drawn[-1][1]

    def classifier(self, name: str, vectors: Embeddings) -> list[System]:
        """Return the classifier on an encoder's vectors; nothing where it is left out."""
        settings = self.settings.classifier
        if not settings.epochs:
            return []
        train, *judged = (
            inputs_of(vectors, "directed", part.premises, part.hypotheses, part.classes(settings.classes))
            if settings.sides == "both"
            else inputs_of(vectors, "vector", part.hypotheses, None, part.classes(settings.classes))
            for part in (self.splits["train"], *self.judged)
        )
        classified = classify(train, judged[0], judged, settings, seed=self.settings.seed, device=self.device)
        return [self._by_logits(f"{name}_classifier", classified)]


def _alike(one: SentenceEncoder, other: SentenceEncoder) -> bool:
    """Return whether two encoders, each of one network, have the same one but for its weights."""
    kinds = [
        (encoder.vocabulary, encoder.leaves[0].shape, encoder.renormalise)
        for encoder in (one, other)
        if len(encoder.leaves) == 1 and not encoder.heads
    ]
    return len(kinds) == 2 and kinds[0] == kinds[1]


def _beside(name: str, energy: str, systems: Sequence[System]) -> list[System]:
    """Return an encoder's own systems, the baselines, and the trained encoder."""
    own = (name, f"{name}_classifier", f"{name}_untrained", f"{name}_untrained_classifier")
    return [one for one in systems if one.name in (energy, *own, *BASELINES)]


def _unseen(other: Other, pairs: SentencePairs, systems: Sequence[System]) -> dict[str, Any]:
    """Return the scores on the pairs whose premise is not a training caption of an encoder; thresholds stay."""
    if other.seen is None:
        return {}
    rest = ~other.seen.mask(pairs.premises)
    entry: dict[str, Any] = {"premises_seen": _percent(~rest), "pairs": int(rest.sum())}
    labels = pairs.entailed[rest]
    if labels.any() and not labels.all():
        clusters = premise_numbers(pairs.premises)[rest]
        entry["systems"] = {one.name: judge(one.energies[rest], labels, {}, one.threshold, clusters) for one in systems}
        rights = {one.name: one.right(pairs.entailed)[rest] for one in systems}
        entry["significance"] = significance(rights, clusters)
    return entry


def _percent(mask: Array) -> float:
    return round(100.0 * float(mask.mean()), 6)


def _mistakes(pairs: SentencePairs, energies: Array, threshold: float) -> pa.Table:
    """Return the wrong pairs, farthest from the threshold first."""
    rows = mistakes(energies, pairs.entailed, threshold, MISTAKES)
    part = pairs.where(rows)
    return pa.table({**_texts(part), "accepted": energies[rows] <= threshold, "energy": energies[rows]})


def _scores(pairs: SentencePairs, systems: Sequence[System]) -> pa.Table:
    own = systems[0]
    columns = {**_texts(pairs), "entailed": pairs.entailed, "energy": own.energies}
    columns["accepted"] = own.energies <= own.threshold
    return pa.table(columns | {f"accepted_{one.name}": one.energies <= one.threshold for one in systems[1:]})


def _texts(pairs: SentencePairs) -> dict[str, Any]:
    sides = {"premise": pairs.premises, "hypothesis": pairs.hypotheses}
    columns = sides | {"label": pairs.labels, "source": pairs.sources}
    return {name: pa.array(column, pa.string()) for name, column in columns.items()}
