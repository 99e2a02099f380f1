"""The stages of ``dvc.yaml``: one thin module each, run as ``python -m stages.NAME``.

This file is the first that an interpreter reads, so it says in one line when that
interpreter is not the one Sightword is installed in.
"""

import importlib.metadata
import sys

try:
    importlib.metadata.version("sightword")
except importlib.metadata.PackageNotFoundError:
    sys.exit(
        f"{sys.executable} has no Sightword installed. Run `make install`, then put its environment first on PATH "
        "(`. .venv/bin/activate`) before `dvc repro`; `make repro` does both."
    )
