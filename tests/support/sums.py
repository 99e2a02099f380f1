"""SHA256SUMS of an encoder's folder, written anew by whoever means a change."""

from __future__ import annotations

import hashlib
from pathlib import Path


def renew(folder: Path) -> None:
    paths = [folder / "encoder.json", *sorted(folder.glob("*.safetensors")), *sorted(folder.glob("vocabulary*.json"))]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths if path.exists()]
    (folder / "SHA256SUMS").write_text("".join(lines))
