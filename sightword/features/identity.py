"""What a feature is: all that determines its numbers, and the key it is stored under."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sightword.features.transform import Transform
from sightword.files import canonical_json

KERNELS = {"cpu": "cpu-1", "cuda": "cuda-1"}
"""By kind of device, the version of the way features are computed there. It goes up
with any change that moves even the last bits, so that old features are not mixed with new.
``-plain`` follows where a CPU cannot take the fused way."""


@dataclass(frozen=True)
class Identity:
    """A kind of feature: everything in its key but the picture."""

    backbone: str
    feature_point: str
    transform: Transform
    weights_sha256: str
    precision: str
    kernel: str
    """From :data:`KERNELS`: devices differ in the last bits."""

    def as_json(self) -> str:
        """The record as JSON with sorted keys."""
        return canonical_json(self._record())

    @property
    def name(self) -> str:
        """The name of its folder in a store: 32 hex digits of the sha256 of :meth:`as_json`."""
        return name_of(self.as_json())

    def key(self, picture_sha256: str) -> bytes:
        """The key of a picture's feature: the sha256, 32 bytes, of canonical JSON of all that determines it."""
        return hashlib.sha256(canonical_json({**self._record(), "picture": picture_sha256}).encode()).digest()

    def _record(self) -> dict[str, Any]:
        return {
            "backbone": self.backbone,
            "feature_point": self.feature_point,
            "kernel": self.kernel,
            "precision": self.precision,
            "transform": json.loads(self.transform.as_json()),
            "weights_sha256": self.weights_sha256,
        }


def name_of(record: str) -> str:
    """The folder's name that belongs to an identity's JSON."""
    return hashlib.sha256(record.encode()).hexdigest()[:32]
