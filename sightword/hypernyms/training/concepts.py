"""Trained concepts: the folder that the stage train writes, and predictions of hypernyms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from sightword.errors import EncoderError, FileFormatError
from sightword.hypernyms.training.energies import ENERGIES, Energy
from sightword.io.files import Pathish, atomic_file, read_json, sha256_file, write_json
from sightword.messages import guess

SCHEMA = 1
TODO = "Take the folder whole: run `dvc checkout models/hypernyms/concepts`, or copy it again."
_WEIGHTS = "concepts.safetensors"
_ABOUT = "concepts.json"
_DAMAGED = (safetensors.SafetensorError, KeyError, TypeError, ValueError, FileFormatError)


@dataclass(frozen=True)
class Concepts:
    """Trained vectors of named concepts."""

    names: list[str]
    """Such as ``dog.n.01``."""
    words: list[str]
    """The words for each concept, separated by a comma and a space."""
    vectors: NDArray[np.float32]
    """(concepts, width)."""
    weights: Mapping[str, NDArray[np.float32]]
    """Weights that all pairs share."""
    threshold: float
    """The energy up to which a pair counts as true, chosen on dev."""
    settings: Mapping[str, Any]
    """``energy``, ``dimension``, ``margin`` and ``slack``."""

    @property
    def model(self) -> Energy:
        """The energy."""
        return ENERGIES[self.settings["energy"]](*(self.settings[name] for name in ("dimension", "margin", "slack")))

    def save(self, folder: Pathish) -> None:
        """Write the concepts into an existing folder; the same concepts give the same bytes."""
        place = Path(folder)
        with atomic_file(place / _WEIGHTS) as path:
            path.write_bytes(safetensors.numpy.save({"vectors": self.vectors, **self.weights}))
        about = {"schema": SCHEMA, "sha256": sha256_file(place / _WEIGHTS), "threshold": self.threshold}
        write_json(place / _ABOUT, {**about, **self.settings, "names": self.names, "words": self.words})

    @classmethod
    def load(cls, folder: Pathish) -> Concepts:
        """Read saved concepts.

        Raises:
            EncoderError: the folder has no concepts, or they are damaged.
        """
        place = Path(folder)
        if not (place / _ABOUT).is_file():
            todo = f"The stage embed of hypernyms/dvc.yaml writes the folder (`make hypernyms`). {TODO}"
            raise EncoderError(f"has no concepts ({_ABOUT} is missing)", where=place, todo=todo)
        try:
            about = read_json(place / _ABOUT)
            if about["schema"] != SCHEMA or sha256_file(place / _WEIGHTS) != about["sha256"]:
                raise ValueError("the sha256 of the weights is another one, or the schema")
            tensors = safetensors.numpy.load_file(place / _WEIGHTS)
            settings = {name: about[name] for name in ("energy", "dimension", "margin", "slack")}
            found = cls(
                about["names"], about["words"], tensors.pop("vectors"), tensors, float(about["threshold"]), settings
            )
            if len(found.names) != len(found.vectors) or settings["energy"] not in ENERGIES:
                raise ValueError("names and vectors do not belong together")
        except _DAMAGED as error:
            raise EncoderError(f"is damaged ({error})", where=place, todo=TODO) from None
        return found

    def energy(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return the energy (N,) of pairs (hyponym, hypernym) of names; low for true pairs.

        Raises:
            EncoderError: a name is unknown.
        """
        low, high = (np.array([self._id(pair[side]) for pair in pairs], np.int64) for side in (0, 1))
        return self.scores(low, high).astype(np.float64)

    def is_a(self, hyponym: str, hypernym: str) -> bool:
        """Return whether the energy of a pair is at most the threshold.

        Raises:
            EncoderError: a name is unknown.
        """
        return bool(self.energy([(hyponym, hypernym)])[0] <= self.threshold)

    def hypernyms(self, name: str, top: int = 10) -> list[tuple[str, float]]:
        """Return the concepts with the lowest energy above one concept, and the energies; at a tie the shorter vector
        stands last, since a general concept has a short vector.

        Raises:
            EncoderError: the name is unknown.
        """
        own = self._id(name)
        energies = self.scores(np.array([own]), slice(None))
        energies[own] = np.inf
        order = np.lexsort((-np.linalg.norm(self.vectors, axis=1), energies))[:top]
        return [(self.names[place], float(energies[place])) for place in order if place != own]

    def scores(self, low: NDArray[Any] | slice, high: NDArray[Any] | slice) -> NDArray[Any]:
        """Return the energies of hyponyms and hypernyms by id; one hyponym goes with all hypernyms."""
        return self.model.scores(self.vectors[low], self.vectors[high], self.weights)

    def find(self, word: str) -> list[str]:
        """Return the concept of this name, or all concepts that the word stands for.

        Raises:
            EncoderError: there is none; the message has near words.
        """
        if word in self.names:
            return [word]
        wanted = word.lower().replace("_", " ")
        found = [
            name for name, words in zip(self.names, self.words, strict=True) if wanted in words.lower().split(", ")
        ]
        if not found:
            known: Iterable[str] = (one for words in self.words for one in words.lower().split(", "))
            raise EncoderError(f"no concept{guess(wanted, known)}", where=word)
        return sorted(found)

    def _id(self, name: str) -> int:
        try:
            return self.names.index(name)
        except ValueError:
            raise EncoderError(f"no concept has this name{guess(name, self.names)}", where=name) from None
