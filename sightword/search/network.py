"""The network that made features, as the attributes of the features name it, for pictures that have none yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightword.errors import FeaturesError, SearchError
from sightword.features.identity import Transform
from sightword.features.networks.files import network_sha256
from sightword.features.settings import RANDOM, is_weights_file
from sightword.features.tables.origin import random_weights

if TYPE_CHECKING:
    from sightword.features.networks.network import Backbone
    from sightword.features.weights import Weights


@dataclass(frozen=True)
class NamedNetwork:
    """The network, weights and transform that attributes name."""

    attributes: Mapping[str, Any]
    """The root attributes of ``features.h5``, or the notes of an encoder on its features."""
    file: Path | None = None
    """The file with the weights; None for random weights, and for those that a package or a publisher has."""

    @property
    def obstacle(self) -> str:
        """The reason why features like these cannot be computed; empty where they can."""
        if not self.attributes.get("backbone"):
            origin = str(self.attributes.get("origin") or "of unknown origin").partition(" (sha256")[0]
            return f"the encoder was trained on precomputed features ({origin}), which new pictures cannot have"
        try:
            _ = self.transform
        except (ValueError, TypeError, FeaturesError):
            return "the features do not say how their pictures were cropped and normalised"
        name = str(self.attributes.get("weights", ""))
        if is_weights_file(name) and self.file is None:
            return f"the network's weights are a file of their own ({name}): give it as weights"
        return ""

    @property
    def transform(self) -> Transform:
        """The transform; a ValueError or TypeError if the attributes have none, or an incomplete one."""
        return Transform(**json.loads(str(self.attributes.get("transform", ""))))

    @property
    def backbone(self) -> Backbone:
        """The backbone; FeaturesError if it is unknown, SearchError if its files are not those of the features."""
        from sightword.features.backbones import find_backbone  # loads torchvision

        name = str(self.attributes["backbone"])
        if (wanted := self.attributes.get("network_sha256")) and (found := network_sha256(name)) != wanted:
            what = f"have the sha256 {found}, and the features were made with others" if found else "are not here"
            todo = "Run it in the project's folder; after a change, run the stage features and all after it again."
            raise SearchError(f"the network's files {what}", where=name, expected=f"the sha256 {wanted}", todo=todo)
        return find_backbone(name, str(self.attributes["feature_point"]))

    @property
    def weights_name(self) -> str:
        """The name of published weights, ``random``, or the path of the file."""
        name = str(self.attributes["weights"])
        if random_weights(self.attributes):
            return RANDOM
        return str(self.file.absolute()) if self.file else name

    @property
    def seed(self) -> int:
        """The seed of random weights; 0 for others."""
        return int(str(self.attributes["weights"]).partition(":")[2] or 0) if random_weights(self.attributes) else 0

    @property
    def sha256(self) -> str:
        """The sha256 of the weights, in hex."""
        return str(self.attributes["weights_sha256"])

    def weights(self) -> Weights:
        """Return the weights.

        Raises:
            SearchError: random weights differ from those that made the features.
            WeightsError: the weights are missing, or have another sha256.
            FeaturesError: the network is unknown.
        """
        from sightword.features.weights import Weights

        wanted = "" if self.weights_name == RANDOM else self.sha256
        found = Weights(self.backbone, self.weights_name, sha256=wanted, seed=self.seed)
        self.check(found.sha256)
        return found

    def check(self, sha256: str) -> None:
        """Check that weights have the sha256 of those that made the features; SearchError otherwise."""
        if self.sha256 and sha256 != self.sha256:  # of features made elsewhere it may not be stated
            what = "random weights are not the same here as where the features were computed"
            todo = "Run the stage features again with this version of torch."
            raise SearchError(what, expected=f"the sha256 {self.sha256}", todo=todo)
