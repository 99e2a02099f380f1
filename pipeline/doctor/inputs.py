"""Check the inputs of a run: corpus, evaluation sets, weights, encoders; text and ratings of the grounded space."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Finding, failure, good, problem, warning
from pipeline.doctor.project import git_output
from pipeline.experiments.baseline import BESIDE
from sightword.corpus.listing import list_pictures
from sightword.errors import CorpusError, FileFormatError, SemanticsError
from sightword.features.settings import RANDOM, is_weights_file
from sightword.io.files import sha256_file
from sightword.messages import and_more, size

_README = "data/raw/README.md describes where it belongs; `sightword fetch --help` lists what can be downloaded."


def check_corpus(context: Context) -> Iterator[Finding]:
    """Check the files that the corpus's format needs, its pictures, and whether DVC or git tracks them."""
    settings = context.section("corpus")
    if settings is None:
        return
    path, pictures = context.root / settings.path, context.root / settings.pictures
    if not path.is_dir():
        yield problem(f"corpus.path = {settings.path}: there is no such folder", _advice(context, settings.path))
        return
    try:
        files = settings.model_copy(update={"path": str(path)}).files()
        listing = list_pictures(path, required=True)
    except CorpusError as error:
        yield failure(error, _README)
        return
    assert listing is not None
    missing = [name for name in files if not (path / name).is_file()]
    empty = [name for name in files if (path / name).is_file() and not (path / name).stat().st_size]
    for names, what, todo in (
        (missing, f"lacks {{}} (corpus.format: {settings.format})", _README),
        (empty, "{} is empty", "Fetch it again."),
        (sorted(listing.misnamed), "DVC stops at a name that is not UTF-8: {}", "Rename or remove it."),
        (sorted(listing.circular), "DVC stops at a circular link: {}", "Remove it."),
    ):
        if names:
            yield problem(f"{settings.path}: {what.format(and_more(names, 5))}", todo)
    if not settings.draws_pictures and settings.require_pictures and not any(pictures.glob("*")):
        todo = f"{_README} Set corpus.require_pictures to false where features come precomputed."
        yield problem(f"corpus.pictures = {settings.pictures}: there are no pictures", todo)
    elif not missing and not empty:
        yield good(f"{settings.path} has the files of the format {settings.format}")
    above = [place for place in (Path(settings.path), *Path(settings.path).parents) if place.name]
    tracked = any((context.root / f"{place}.dvc").is_file() for place in above)
    if not tracked and git_output(context.root, "ls-files", "--", settings.path) == "":
        what = f"neither DVC nor git tracks {settings.path}: experiments in a copy of the workspace will not find it"
        yield warning(what, f"`dvc add {settings.path}`, then commit {settings.path}.dvc.")


def _advice(context: Context, path: str) -> str:
    return f"`dvc pull {path}.dvc`." if (context.root / f"{path}.dvc").is_file() else _README


def check_semantics(context: Context) -> Iterator[Finding]:
    """Check the evaluation sets that the parameters name."""
    from sightword.evaluation.semantics.datasets import missing_file

    for stage in ("semantics", "epochs", "judge"):
        settings = context.section(stage)
        tasks = [] if settings is None else [*settings.tasks, *getattr(settings, "transfer", [])]
        if settings is None or not tasks:
            continue
        data, named = context.root / settings.data, f"{stage}.data = {settings.data}"
        if not (data / "downstream").is_dir() and settings.data.startswith("data/corpus/"):
            yield good(f"{named}: the stage corpus makes it")
            continue
        try:
            missing = {task: missing_file(task, data) for task in tasks}
        except SemanticsError as error:
            found = failure(error, _advice(context, settings.data))
            yield replace(found, what=f"{named}: {found.what}")
            continue
        gone = [f"{task} ({file})" for task, file in missing.items() if file is not None]
        if gone and settings.missing == "skip":
            yield warning(f"{named} lacks {and_more(gone, 5)}: left out", _README)
        elif gone:
            yield problem(f"{named} lacks {and_more(gone, 5)}", _advice(context, settings.data))
        else:
            yield good(f"{named} has the files of {len(tasks)} tasks")


def check_grounded(context: Context) -> Iterator[Finding]:
    """Check the ordered text, and the files that the judging and the scenarios of the grounded space name."""
    from sightword.corpus.sample.world import load_world
    from sightword.grounded.training.settings import OWN_STARTS
    from sightword.text.reading import Sentences

    text, ground, judge = (context.section(stage) for stage in ("text", "ground", "judge"))
    if text is None or ground is None or judge is None:
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
    named = {"judge.ratings": f"data/raw/ratings/{judge.ratings}"} if judge.ratings else {}
    for name in ground.run:
        scenario, place = ground.scenario(name), f"ground.scenarios.{name}"
        if scenario.start not in OWN_STARTS:
            named[f"{place}.start"] = f"{ground.encoders}/{scenario.start}"
        if scenario.expansion:
            named[f"{place}.expansion"] = f"data/raw/word_vectors/{scenario.expansion}"
    yield from _exist(context, named)


def _exist(context: Context, named: Mapping[str, str]) -> Iterator[Finding]:
    """Check that the files and folders that parameters name exist."""
    for parameter, file in named.items():
        if (context.root / file).exists():
            yield good(f"{parameter}: {file} exists")
        else:
            yield problem(f"{parameter}: {file} does not exist", "Put it there, or fix the name.")


def check_weights(context: Context) -> Iterator[Finding]:
    """Check the weights of the image network, or the precomputed features; and the encoders of other training runs."""
    select = context.section("select")
    if select is not None:
        yield from _exist(
            context, {f"select.beside ({name})": f"{BESIDE}/{name}/encoder.json" for name in select.beside}
        )
    settings = context.section("features")
    if settings is None:
        return
    inputs, weights = context.root / settings.inputs, settings.weights
    if settings.source == "precomputed":
        files = {"precomputed": settings.precomputed, "precomputed_ids": settings.precomputed_ids}
        missing = {name: file for name, file in files.items() if file and not (inputs / file).is_file()}
        for name, file in missing.items():
            yield problem(f"features.{name}: {inputs / file} does not exist", "Put it there, or fix the name.")
        if not missing:
            yield good(f"{inputs / settings.precomputed} exists")
    elif weights == RANDOM:
        yield good("the image network has random weights: for demonstration")
    elif not is_weights_file(weights):
        yield from _check_published(context, settings)
    elif not (inputs / weights).is_file():
        report = warning if context.has_run("features") else problem
        todo = f"Put the file with the sha256 {settings.weights_sha256} there; features in the store do not need it."
        yield report(f"features.weights: {inputs / weights} does not exist", todo)
    elif context.quick:
        yield good(f"{inputs / weights} exists")
    else:
        yield _check_sha256(inputs / weights, settings.weights_sha256)


def _check_published(context: Context, settings: Any) -> Iterator[Finding]:
    facts = context.ask("torch")
    if "accepted" not in facts:
        return  # not asked, or the check of torch reports the error
    if settings.weights not in facts["accepted"]:
        what = f"features.weights = {settings.weights}: torchvision publishes no such weights for {settings.backbone}"
        yield problem(what, f"Use one of {', '.join(facts['accepted']) or 'another network'}, a file, or {RANDOM}.")
        return
    path = Path(facts["hub"]) / "checkpoints" / facts["url"].rpartition("/")[2]
    begins = re.search(r"-([0-9a-f]{8,})\.", path.name)
    if path.is_file():
        yield _check_sha256(path, settings.weights_sha256 or (begins.group(1) if begins else ""))
    else:
        todo = f"Without a network: put {facts['url']} there first (`sightword fetch weights`)."
        yield warning(f"{path} does not exist: the first run downloads {size(facts['weights_bytes'])}", todo)


def _check_sha256(path: Path, wanted: str) -> Finding:
    """Check a file against its sha256, or against the first digits."""
    if (found := sha256_file(path)).startswith(wanted.lower()):
        return good(f"{path} has the expected sha256")
    todo = "Delete it and fetch it again; or, if it is the right file, write its sha256 to features.weights_sha256."
    return problem(f"{path} has the sha256 {found}, not {wanted}", todo)
