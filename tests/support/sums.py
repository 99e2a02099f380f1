"""SHA256SUMS of a saved folder, written anew by whoever means a change."""

from __future__ import annotations

import hashlib
from pathlib import Path


def renew(folder: Path) -> None:
    names = [line.split("  ", 1)[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
