"""The curves of a training run: tables that DVC plots, and events for TensorBoard."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from sightword.errors import SetupError
from sightword.io.files import write_tsv
from sightword.messages import install_extra
from sightword.training.checkpoint import Columns, Progress


def write_curves(folder: Path, progress: Progress, *, step: str = "batch") -> None:
    """Write a table for each of :attr:`Progress.curves` into a folder; ``step`` names the column of batches done."""
    for name, columns in progress.curves.items():
        write_table(folder / f"{name}.tsv", step, columns)


def write_table(path: Path, step: str, columns: Columns) -> None:
    """Write curves side by side: a row for each place where one has a point; the others are empty there."""
    values = [dict(curve) for curve in columns.values()]
    places = sorted({place for curve in values for place in curve})
    write_tsv(path, (step, *columns), [(place, *(curve.get(place, "") for curve in values)) for place in places])


def events_folder() -> Path | None:
    """Return the folder for events that ``SIGHTWORD_TENSORBOARD`` names; None where the variable names none.

    Raises:
        SetupError: the package tensorboard is not installed.
    """
    named = os.environ.get("SIGHTWORD_TENSORBOARD")
    if named and importlib.util.find_spec("tensorboard") is None:
        what = f"SIGHTWORD_TENSORBOARD={named}: the package tensorboard is not installed"
        raise SetupError(what, todo=install_extra("tensorboard"))
    return Path(named).absolute() if named else None


@contextlib.contextmanager
def open_events(name: str | None, section: str, settings: Mapping[str, object]) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that writes the curves so far as events for TensorBoard, each point once; steps are batches.

    The settings are a text of the run. The points replace those of an earlier, killed process with the same name.
    Without a name, and where ``SIGHTWORD_TENSORBOARD`` names no folder, nothing is written.
    """
    folder = events_folder()
    if folder is None or name is None:
        yield lambda _: None
        return
    from torch.utils.tensorboard import SummaryWriter

    written: Counter[str] = Counter()
    with SummaryWriter(str(folder / name), purge_step=0) as writer:
        writer.add_text(section, "\n".join(f"    {name}: {value}" for name, value in settings.items()))

        def write(progress: Progress) -> None:
            for table, columns in progress.curves.items():
                for column, points in columns.items():
                    tag = f"{table}/{column}"
                    for step, value in points[written[tag] :]:
                        writer.add_scalar(tag, value, step)
                    written[tag] = len(points)
            writer.flush()

        yield write
