"""The sample made as small as it goes: all stages, in seconds each."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TypeVar

from checkout import Checkout, change, environment, locked

CheckoutT = TypeVar("CheckoutT", bound=Checkout)


def make_small(checkout: Checkout) -> None:
    """Write the settings of a run of 16 pictures and one epoch, in a clone as it was committed."""
    checkout.run("sightword", "params", "--recipe", "sample", "--force")
    shrink(checkout.folder)


def shrink(folder: Path) -> None:
    """Make the sample of a project small."""
    change(folder / "data/raw/sample/scenes.yaml", pictures__train=8, pictures__dev=4, pictures__test=4)
    few_pairs(folder)
    change(
        folder / "params.yaml",
        features__crops="one",
        train__epochs=1,
        train__cycle=1,
        train__hidden=8,
        train__batch=8,
        select__members=1,
        retrieval__top=4,
    )


def few_pairs(folder: Path) -> None:
    """Draw a fifth of the sentence pairs, with which the trained head is done in less than a second."""
    scenes = folder / "data/raw/sample/scenes.yaml"
    change(scenes, pairs__scenes=60, pairs__details=40, pairs__sick={"train": 60, "trial": 20, "test": 40})


def compute(repository: Path, folder: Path) -> None:
    """Compute and commit a small run of the project in a folder: ``clone``, ``store`` and ``log``."""
    folder.mkdir()
    checkout = Checkout(repository, folder / "clone", folder / "store")
    make_small(checkout)
    (folder / "log").write_text(checkout.run("dvc", "repro").stderr)
    checkout.run("git", "add", "-A")
    checkout.run("git", "commit", "-qm", "a small run")


class SmallRun:
    """A small run that was computed; each test that wants one works in a copy.

    Args:
        folder: where :func:`compute` put it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def log(self) -> str:
        """What the stages printed on standard error."""
        return (self._folder / "log").read_text()

    def locked(self) -> dict[str, dict[str, str]]:
        """The hash of each output, by stage and path."""
        return locked(self._folder / "clone")

    def copy(self, folder: Path, store: Path, kind: type[CheckoutT]) -> CheckoutT:
        """A checkout with the same history, data and cache, and the same caches beside it, all its own."""
        shutil.copytree(self._folder / "clone", folder, symlinks=True)
        shutil.copytree(self._folder / "store", store)
        found = kind.__new__(kind)
        found.folder, found.environment = folder, environment(store)
        return found
