"""SHA256SUMS of an encoder's folder, written anew by whoever means a change."""

from __future__ import annotations

import hashlib
from pathlib import Path


def renew(folder: Path) -> None:
    paths = [folder / "encoder.json", *sorted(folder.glob("*.safetensors")), *sorted(folder.glob("vocabulary*.json"))]
    paths += sorted(folder.glob("beside-*/SHA256SUMS"))
    sums = {path.relative_to(folder): hashlib.sha256(path.read_bytes()) for path in paths if path.exists()}
    lines = [f"{found.hexdigest()}  {path.as_posix()}\n" for path, found in sums.items()]
    (folder / "SHA256SUMS").write_text("".join(lines))
