"""Declarations of the pipeline of the grounded space: see :mod:`pipeline.systems`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline.doctor.context import Context
from pipeline.doctor.files import exist, tasks
from pipeline.doctor.findings import Check, Finding, failure, good
from sightword.errors import CorpusError, FileFormatError
from sightword.messages import guess

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


def check(context: Context) -> Iterator[Finding]:
    """Check the ordered text, the evaluation sets, and the files that scenarios and scores name."""
    from sightword.corpus.sample.world import load_world
    from sightword.grounded.training.settings import OWN_STARTS
    from sightword.text.reading import Sentences

    text, train, evaluate = (context.section(f"{PARAMS}:{stage}") for stage in ("text", "train", "evaluate"))
    if text is None or train is None or evaluate is None:
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
    named = {"evaluate.ratings": f"data/raw/ratings/{evaluate.ratings}"} if evaluate.ratings else {}
    for name in train.run:
        scenario, place = train.scenario(name), f"train.scenarios.{name}"
        if scenario.start not in OWN_STARTS:
            named[f"{place}.start"] = f"{train.encoders}/{scenario.start}"
        if scenario.expansion:
            named[f"{place}.expansion"] = f"data/raw/word_vectors/{scenario.expansion}"
    yield from exist(context, {f"{PARAMS}:{parameter}": file for parameter, file in named.items()})


CHECKS = (Check("grounded", check, needs_project=True),)
