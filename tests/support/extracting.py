"""Features of picture files, with the settings of both sections as options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightword import FeaturesSettings, ResizeSettings
from sightword import extract as extract_by
from sightword.io.files import Pathish, sha256_file


def extract(pictures: Sequence[Pathish], backbone: str, weights: Pathish = "random", **options: Any) -> np.ndarray:
    """Return features by :func:`sightword.extract`; ``weights`` may be a path, whose sha256 is then taken."""
    sides = {"resize": "side", "fit": "fit", "interpolation": "interpolation", "exif": "exif"}
    resize = ResizeSettings(**{sides[name]: options.pop(name) for name in [*options] if name in sides})
    places = {name: options.pop(name) for name in ("store", "device", "workers") if name in options}
    if isinstance(weights, Path):
        options |= {
            "inputs": str(weights.parent),
            "weights_sha256": options.get("weights_sha256") or sha256_file(weights),
        }
    settings = FeaturesSettings(
        backbone=backbone, weights=Path(weights).name if isinstance(weights, Path) else weights, **options
    )
    return extract_by(pictures, settings, resize, **places)
