"""pyarrow without pandas, for the start of a program."""

from __future__ import annotations

import sys


class _NoPandas:
    """A finder of modules that finds no pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas; leave other modules to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def leave_pandas() -> None:
    """Let pyarrow do without pandas until a table becomes a frame (``to_pandas``).

    The first array of a process makes pyarrow import pandas, half a second of processor time, to know frames among the
    arguments. Told that there is no pandas, pyarrow looks again when a frame is asked for. The call holds for the whole
    process, so it is for programs; it does nothing once pandas is loaded.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)
