"""The scenarios as the page presents them: groups, and the losses and controls of each in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightword.encoder.pretrained import ENCODER
from sightword.grounded.training.settings import Common
from sightword.io.files import Pathish
from sightword.io.saved import entry

TEXT, GROUNDED, OTHERS, CONTROLS = "Text alone", "Grounded in pictures", "Other published models", "Controls"
GROUPS = (TEXT, GROUNDED, OTHERS, CONTROLS)
"""In the order of the tables."""
LOSSES = {
    "text": "text",
    "cluster": "clusters",
    "perceptual": "pictures",
    "projection": "projection on pictures",
    "ranking": "Cap2Img",
    "cap2cap": "Cap2Cap",
    "captions_as_text": "captions as text",
}
"""The parts of the loss in words."""


@dataclass(frozen=True)
class Scenario:
    """One scenario, as its saved encoder describes it."""

    training: Common
    features: Mapping[str, Any]
    """The root attributes of the features."""

    @property
    def group(self) -> str:
        """One of :data:`GROUPS`."""
        own = self.training
        if "shuffled" in (own.pictures, own.clusters) or own.pictures == "none":
            return CONTROLS
        if own.captions_as_text or not (own.trains or own.sequential or own.start == "skipthought"):
            return CONTROLS
        if own.sequential or own.concatenate or own.projection or own.ranking or own.cap2cap:
            return OTHERS
        return GROUNDED if own.trains else TEXT

    @property
    def words(self) -> str:
        """The losses with their weights, and all else that tells the scenario from T."""
        own = self.training
        found = [f"{words} {value:g}" for key, words in LOSSES.items() if (value := getattr(own, key))]
        found = found if own.trains else ["regression on pictures, then PCA"] if own.sequential else []
        if own.trains and own.space == "identity" and (own.cluster or own.perceptual):
            found.append("no g")
        if own.start != "skipthought":
            start = "random weights" if own.start == "scratch" else f"the encoder {own.start}"
            found.append(f"from {start}" if own.trains else f"{start}, not trained")
        found += ["trained on with no other loss"] if own.pictures == "none" else []
        found += [f"{name} shuffled" for name in ("pictures", "clusters") if getattr(own, name) == "shuffled"]
        found += ["joined with T"] if own.concatenate else []
        return ", ".join(found) or "the encoder of text as it is"


def read_scenarios(folder: Pathish, names: Sequence[str], seed: int) -> dict[str, Scenario]:
    """Read the parameters of each scenario from the encoders in ``models/grounded``.

    Raises:
        EncoderError: an encoder is missing, was changed, or is of another stage.
    """
    found = {}
    for name in names:
        place = Path(folder) / f"{name}-{seed}"
        about, _ = ENCODER.read(place)
        with ENCODER.checked(place / ENCODER.description):
            notes = entry(about, "notes", dict)
            found[name] = Scenario(Common.model_validate(notes["training"]), entry(notes, "features", dict))
    return found


def chosen(scenarios: Mapping[str, Scenario], baseline: str) -> str:
    """Return the scenario that the drawings show beside the baseline.

    Choose the scenario grounded in pictures with most losses of captions and pictures (ties: judged in g, then last);
    else the last other scenario; else the baseline.
    """
    ranked = {
        name: (
            one.group == GROUNDED,
            bool(one.training.cluster) + bool(one.training.perceptual),
            one.training.judged == "grounded",
            place,
        )
        for place, (name, one) in enumerate(scenarios.items())
        if name != baseline
    }
    return max(ranked, key=ranked.__getitem__) if ranked else baseline


def in_groups(scenarios: Mapping[str, Scenario]) -> list[tuple[str, list[str]]]:
    """Return the names of each group that has any."""
    found = {group: [name for name, one in scenarios.items() if one.group == group] for group in GROUPS}
    return [(group, names) for group, names in found.items() if names]
