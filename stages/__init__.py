"""The stages of the pipelines, one thin module each: ``python -m stages NAME`` runs a stage of the first pipeline,
``python -m stages FOLDER NAME`` a stage of a further one, whose modules lie in the package of this name.

``python -m stages`` reads this file first: it reports in one line an interpreter without Sightword's packages.
"""

import importlib.util
import os
import sys

# Threads that spin while they wait slow each other down thirtyfold on a busy machine; sleeping ones cost a few percent
# on an idle machine. The variable must be set before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_NEEDED = ("h5py", "jinja2", "matplotlib", "numpy", "pandas", "PIL", "pyarrow", "pydantic", "ruamel", "safetensors",
           "scipy", "torch", "torchvision", "tqdm")  # fmt: skip
_missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
if sys.argv[:1] == ["-m"] and (_missing or sys.version_info < (3, 11, 4)):
    _lacks = ", ".join(_missing) or "Python 3.11.4"
    sys.exit(
        f"{sys.executable} has no Sightword installed (it lacks {_lacks}). Run `make install`, then put its "
        "environment first on PATH (`. .venv/bin/activate`) before `dvc repro`; `make repro` does both."
    )
