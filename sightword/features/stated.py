"""The making of features elsewhere, as the section ``features`` states it: the attributes of extracted features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sightword.errors import FeaturesError
from sightword.features.backbones import find_backbone, skeleton
from sightword.features.identity import transform_of
from sightword.features.networks.files import network_sha256
from sightword.features.packaged import SHA256
from sightword.features.settings import PACKAGE, RANDOM, FeaturesSettings
from sightword.features.weights import check_name


def stated(settings: FeaturesSettings, resized: dict[str, Any], dimension: int, *, where: object) -> dict[str, str]:
    """Return the attributes of ``features.h5`` for features of the network, weights and transform of the section.

    Args:
        settings: the section ``features``.
        resized: the settings of the stage resize.
        dimension: the number of features of a picture.
        where: the file of the features, for messages.

    Raises:
        FeaturesError: the network is unknown, or gives another number of features.
        WeightsError: the network has no weights of this name.
        SetupError: the network's library is not installed.
    """
    backbone = find_backbone(settings.backbone, settings.feature_point)
    if (own := skeleton(backbone).dimension) != dimension:
        what = f"has {dimension} features of a picture, and {backbone.name} at {backbone.feature_point} gives {own}"
        todo = "Fix features.backbone and features.feature_point, or set features.precomputed_stated to false."
        raise FeaturesError(what, where=where, todo=todo)
    check_name(backbone, settings.weights)
    packaged = SHA256.get(backbone.name, "") if settings.weights == PACKAGE else ""
    return {
        "backbone": backbone.name,
        "feature_point": backbone.feature_point,
        "weights": f"{RANDOM}:{settings.weights_seed}" if settings.weights == RANDOM else Path(settings.weights).name,
        "weights_sha256": settings.weights_sha256 or packaged,
        "transform": transform_of(settings, resized, backbone.own).as_json(),
        "precision": settings.precision,
        "network_sha256": network_sha256(backbone.name),
    }
