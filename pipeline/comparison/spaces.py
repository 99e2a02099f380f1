"""Two runs of the pipeline of the grounded space compared, scenario by scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.comparison.systems import Better, who_is_better
from sightword.errors import ScoringError
from sightword.grounded.page.comparing import compare as paired
from sightword.grounded.page.results import differing_material, read_runs
from sightword.statistics import holm


@dataclass(frozen=True)
class Space:
    """A measure of one scenario in both runs, in percent: the mean over seeds; transfer tasks: the first seed."""

    scenario: str
    measure: str
    a: float
    b: float
    difference: float
    interval: tuple[float, float] | None
    """Of the difference, 95 %; None for transfer tasks."""
    p: float
    holm: float
    """``p``, corrected over all measures of all scenarios."""

    @property
    def better(self) -> Better:
        """The run that is higher beyond chance; for C_inter the lower one."""
        return who_is_better(-self.difference if self.measure == "c_inter" else self.difference, self.holm)


def compare(a: Path, b: Path, *, samples: int, seed: int) -> list[Space]:
    """Compare two folders ``data/grounded``: the scenarios of both, with the seeds of both.

    The tests are those of :func:`sightword.grounded.page.comparing.compare`.

    Raises:
        ScoringError: no scenario with a seed is in both, or the two were judged on other pictures or pairs.
        FileFormatError: a file is missing or damaged.
    """
    of_a, of_b = _seeds(a), _seeds(b)
    found = []
    for name in sorted(of_a.keys() & of_b.keys()):
        if not (seeds := sorted(of_a[name] & of_b[name])):
            continue
        ours, theirs = (read_runs(folder, [name], seeds)[name] for folder in (a, b))
        if what := differing_material(ours[0], theirs[0]):
            raise ScoringError(f"the two were judged on other {what}")
        for test in paired({"A": ours, "B": theirs}, "B", resamples=samples, seed=seed):
            sides, unit, interval = (ours, theirs), 100.0, None
            if test.low is None or test.high is None:  # a transfer task: percent, of the first seed
                sides, unit = (ours[:1], theirs[:1]), 1.0
            else:
                interval = unit * test.low, unit * test.high
            values = [[run.score(test.key) for run in side] for side in sides]
            x, y = (unit * float(np.mean([value for value in side if value is not None])) for side in values)
            scores = x, y, unit * test.difference
            found.append(Space(name, test.key, *scores, interval, test.p, test.p))
    if not found:
        raise ScoringError("no scenario was judged in both with the same seed")
    corrected = holm([row.p for row in found])
    return [Space(**{**vars(row), "holm": p}) for row, p in zip(found, corrected, strict=True)]


def _seeds(folder: Path) -> dict[str, set[int]]:
    """Return the seeds of each scenario of a folder; an empty folder, which `dvc checkout` may leave, is none."""
    found: dict[str, set[int]] = {}
    for place in folder.iterdir():
        name, _, seed = place.name.rpartition("-")
        if name and seed.isdigit() and any(place.iterdir()):
            found.setdefault(name, set()).add(int(seed))
    return found
