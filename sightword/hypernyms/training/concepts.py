"""Trained concepts: the folder that the stage train writes, and predictions of hypernyms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from sightword.errors import EncoderError
from sightword.hypernyms.training.energies import ENERGIES, Energy
from sightword.io.files import Pathish, atomic_file
from sightword.io.saved import Format, as_folder, entry, texts
from sightword.messages import guess, quote

TODO = "Take the folder whole: run `dvc checkout models/hypernyms/concepts`, or copy it again."
FORMAT = Format("concepts.json", 2, TODO)
_WEIGHTS = "concepts.safetensors"


@dataclass(frozen=True)
class Concepts:
    """Trained vectors of named concepts."""

    names: list[str]  # such as dog.n.01
    words: list[str]  # the words for each concept, separated by a comma and a space
    vectors: NDArray[np.float32]  # (concepts, width)
    weights: Mapping[str, NDArray[np.float32]]  # weights that all pairs share
    threshold: float  # the energy up to which a pair counts as true, chosen on dev
    settings: Mapping[str, Any]  # energy, dimension, margin and slack

    @property
    def model(self) -> Energy:
        """The energy."""
        return ENERGIES[self.settings["energy"]](*(self.settings[name] for name in ("dimension", "margin", "slack")))

    def save(self, folder: Pathish) -> None:
        """Write the concepts into an existing folder; the same concepts give the same bytes."""
        place = as_folder(folder)
        with atomic_file(place / _WEIGHTS) as path:
            path.write_bytes(safetensors.numpy.save({"vectors": self.vectors, **self.weights}))
        about = {"threshold": self.threshold, **self.settings, "names": self.names, "words": self.words}
        FORMAT.write(place, about, [_WEIGHTS])

    @classmethod
    def load(cls, folder: Pathish) -> Concepts:
        """Read saved concepts; EncoderError if there are none, or they are damaged."""
        place = as_folder(folder)
        if not (place / FORMAT.description).is_file():
            todo = f"The stage train of hypernyms/dvc.yaml writes the folder (`make hypernyms`). {TODO}"
            raise EncoderError(f"has no concepts ({FORMAT.description} is missing)", where=place, todo=todo)
        about, names = FORMAT.read(place)
        FORMAT.require(names, _WEIGHTS, where=place)
        with FORMAT.checked(place / FORMAT.description):
            settings: dict[str, Any] = {
                "energy": entry(about, "energy", str),
                "dimension": entry(about, "dimension", int),
                "margin": entry(about, "margin", float),
                "slack": entry(about, "slack", float),
            }
            if settings["energy"] not in ENERGIES:
                raise ValueError(f"energy is {quote(settings['energy'])}; expected {' or '.join(ENERGIES)}")
            tensors = _tensors(place / _WEIGHTS)
            vectors = tensors.pop("vectors")
            ids, words, threshold = texts(about, "names"), texts(about, "words"), entry(about, "threshold", float)
            shape = (len(ids), settings["dimension"] * ENERGIES[settings["energy"]].vectors)
            if vectors.shape != shape or len(words) != len(ids):
                what = f"{len(ids)} names, {len(words)} words and vectors of the shape {vectors.shape}"
                raise ValueError(f"{what} do not belong together")
        return cls(ids, words, vectors, tensors, threshold, settings)

    def energy(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return the energy (N,) of pairs (hyponym, hypernym) of names, low for true pairs.

        EncoderError if a name is unknown, or the pairs are no list of two names each.
        """
        try:
            sides = [(low, high) for low, high in pairs]
        except (TypeError, ValueError):
            expected = "a list of pairs (hyponym, hypernym)"
            raise EncoderError(f"the pairs are {quote(pairs)}", expected=expected) from None
        low, high = (np.array([self._id(pair[side]) for pair in sides], np.int64) for side in (0, 1))
        return self.scores(low, high).astype(np.float64)

    def is_a(self, hyponym: str, hypernym: str) -> bool:
        """Return whether the energy of a pair is at most the threshold; EncoderError if a name is unknown."""
        return bool(self.energy([(hyponym, hypernym)])[0] <= self.threshold)

    def hypernyms(self, name: str, top: int = 10) -> list[tuple[str, float]]:
        """Return the concepts with the lowest energy above one concept, and the energies; at a tie the shorter vector
        stands last, since a general concept has a short vector.

        Raises:
            EncoderError: the name is unknown, or ``top`` is no whole number above 0.
        """
        if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
            raise EncoderError(f"top is {quote(top)}", expected="a whole number above 0")
        own = self._id(name)
        energies = self.scores(np.array([own]), slice(None))
        energies[own] = np.inf
        order = np.lexsort((-np.linalg.norm(self.vectors, axis=1), energies))[:top]
        return [(self.names[place], float(energies[place])) for place in order if place != own]

    def scores(self, low: NDArray[Any] | slice, high: NDArray[Any] | slice) -> NDArray[Any]:
        """Return finite energies of hyponyms and hypernyms by id; one hyponym goes with all hypernyms."""
        energies = self.model.scores(self.vectors[low], self.vectors[high], self.weights)
        if not np.isfinite(energies).all():
            todo = "Train with a smaller train.rate."
            raise EncoderError("the concepts have energies that are not finite", todo=todo)
        return energies

    def find(self, word: str) -> list[str]:
        """Return the concept of this name, or all concepts that the word stands for.

        Raises:
            EncoderError: there is none; the message has near words. Or the word is no text.
        """
        if not isinstance(word, str):
            raise EncoderError(f"the word is {type(word).__name__}", expected="a text")
        if word in self.names:
            return [word]
        wanted = word.lower().replace("_", " ")
        names = [
            name for name, words in zip(self.names, self.words, strict=True) if wanted in words.lower().split(", ")
        ]
        if not names:
            known: Iterable[str] = (one for words in self.words for one in words.lower().split(", "))
            raise EncoderError(f"no concept{guess(wanted, known)}", where=word)
        return sorted(names)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def _id(self, name: str) -> int:
        if not isinstance(name, str):
            raise EncoderError(f"the name is {type(name).__name__}", expected="a text, such as dog.n.01")
        try:
            return self._places[name]
        except KeyError:
            raise EncoderError(f"no concept has this name{guess(name, self.names)}", where=name) from None


def _tensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Return the tensors of a file; ValueError if a tensor is not of finite float32."""
    try:
        tensors = safetensors.numpy.load_file(path)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path.name} is not a whole safetensors file ({error})") from None
    for name, values in tensors.items():
        if values.dtype != np.float32 or not np.isfinite(values).all():
            raise ValueError(f"{name} in {path.name} is not of finite float32")
    return tensors
