"""Declarations of the pipeline of the grounded space: see :mod:`pipeline.systems`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.doctor.findings import Check, Context, Finding, exist, failure, good, tasks
from pipeline.systems import Compared
from sightword.errors import CorpusError, FileFormatError, ScoringError
from sightword.grounded.training.settings import OWN_STARTS
from sightword.messages import guess

if TYPE_CHECKING:
    from pipeline.comparison.parts import Measure

SEED = "train.seeds"
PARAMS = "grounded/params.yaml"


def conflicts(values: dict[str, dict[str, Any]]) -> list[str]:
    """Return the conflicts between two sections: the baseline must be a scenario."""
    if "train" not in values or "report" not in values:
        return []
    baseline, known = values["report"]["baseline"], values["train"]["scenarios"]
    if baseline in known:
        return []
    near = guess(baseline, known)
    return [f"report.baseline = {baseline}: no such scenario{near}; known: {', '.join(known)}"]


def encoders(values: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the encoders from which the scenarios that run start."""
    train = values.get("train", {"run": ()})
    starts = {name: (train["common"] | train["scenarios"][name])["start"] for name in train["run"]}
    return [
        (f"train.scenarios.{name}.start", f"{train['encoders']}/{start}")
        for name, start in starts.items()
        if start not in OWN_STARTS
    ]


def check(context: Context) -> Iterator[Finding]:
    """Check the ordered text, the evaluation sets, and the files that scenarios and scores name."""
    from sightword.corpus.sample.scene import load_world
    from sightword.text.reading import Sentences

    text, evaluate = (context.section(f"{PARAMS}:{stage}") for stage in ("text", "evaluate"))
    if text is None or evaluate is None:
        return
    try:
        path = context.root / text.path
        if text.format == "sample":
            load_world(path)
        else:
            Sentences(text.model_copy(update={"path": str(path)}))
    except (CorpusError, FileFormatError) as error:
        yield failure(error, "data/raw/text/README.md describes the file.")
    else:
        yield good(f"{text.path} has the text")
    yield from tasks(context, f"{PARAMS}:evaluate.data", evaluate, [*evaluate.tasks, *evaluate.transfer])
    if evaluate.ratings:
        yield from exist(context, {f"{PARAMS}:evaluate.ratings": f"data/raw/ratings/{evaluate.ratings}"})


def compare(a: Path, b: Path, *, samples: int, seed: int) -> list[Measure]:
    """Compare two folders ``data/grounded``: the scenarios of both, with the seeds of both; ScoringError if there is
    none, or the two were judged on other pictures or pairs.
    """
    import numpy as np

    from pipeline.comparison.parts import Measure
    from sightword.grounded.comparing import compare as paired
    from sightword.grounded.comparing import differing_material, read_runs
    from sightword.statistics.inference import holm

    of_a, of_b = _seeds(a), _seeds(b)
    measures = []
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
            lower = test.key == "c_inter"
            measures.append(Measure(name, test.key, *scores, interval, test.p, test.p, lower))
    if not measures:
        raise ScoringError("no scenario was judged in both with the same seed")
    corrected = holm([row.p for row in measures])
    return [replace(row, holm=p) for row, p in zip(measures, corrected, strict=True)]


def _seeds(folder: Path) -> dict[str, set[int]]:
    """Return the seeds of each scenario of a folder; an empty folder, which `dvc checkout` may leave, is none."""
    seeds: dict[str, set[int]] = {}
    for place in folder.iterdir():
        name, _, seed = place.name.rpartition("-")
        if name and seed.isdigit() and any(place.iterdir()):
            seeds.setdefault(name, set()).add(int(seed))
    return seeds


CHECKS = (Check("grounded", check, needs_project=True),)
COMPARED = (Compared("Grounded space", "scenario", Path("data/grounded"), compare),)
