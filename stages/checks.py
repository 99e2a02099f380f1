"""The doctor's checks of the first pipeline's inputs: corpus, evaluation sets, weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.doctor.findings import (
    README,
    Check,
    Context,
    Finding,
    advice,
    failure,
    good,
    problem,
    tasks,
    warning,
)
from pipeline.lineage.repository import git_output
from sightword.corpus.listing import list_pictures
from sightword.errors import CorpusError, WeightsError
from sightword.features.network_files import packaged_weights
from sightword.features.settings import ORDER, PACKAGE, RANDOM, is_weights_file
from sightword.messages import and_more


def check_corpus(context: Context) -> Iterator[Finding]:
    """Check the files that the corpus's format needs, its pictures, and whether DVC or git tracks them."""
    settings = context.section("corpus")
    if settings is None:
        return
    path, pictures = context.root / settings.path, context.root / settings.pictures
    if not path.is_dir():
        yield problem(f"corpus.path = {settings.path}: there is no such folder", advice(context, settings.path))
        return
    try:
        files = settings.model_copy(update={"path": str(path), "pictures": str(pictures)}).files()
        listing = list_pictures(path, required=True)
    except CorpusError as error:
        yield failure(error, README)
        return
    assert listing is not None
    missing = [name for name in files if not (path / name).is_file()]
    empty = [name for name in files if (path / name).is_file() and not (path / name).stat().st_size]
    for names, what, todo in (
        (missing, f"lacks {{}} (corpus.format: {settings.format})", README),
        (empty, "{} is empty", "Fetch it again."),
        (sorted(listing.misnamed), "DVC stops at a name that is not UTF-8: {}", "Rename or remove it."),
        (sorted(listing.circular), "DVC stops at a circular link: {}", "Remove it."),
    ):
        if names:
            yield problem(f"{settings.path}: {what.format(and_more(names, 5))}", todo)
    there = pictures.is_file() or any(pictures.glob("*"))
    if not settings.draws_pictures and settings.require_pictures and not there:
        todo = f"{README} Set corpus.require_pictures to false where features come precomputed."
        yield problem(f"corpus.pictures = {settings.pictures}: there are no pictures", todo)
    elif not missing and not empty:
        yield good(f"{settings.path} has the files of the format {settings.format}")
    above = [place for place in (Path(settings.path), *Path(settings.path).parents) if place.name]
    tracked = any((context.root / f"{place}.dvc").is_file() for place in above)
    if not tracked and git_output(context.root, "ls-files", "--", settings.path) == "":
        what = f"neither DVC nor git tracks {settings.path}: experiments in a copy of the workspace will not find it"
        dvc = f"`dvc add {settings.path}`, then commit {settings.path}.dvc."
        yield warning(what, f"Commit {settings.path}." if settings.draws_pictures else dvc)


def check_semantics(context: Context) -> Iterator[Finding]:
    """Check the evaluation sets that the parameters name."""
    sections = {stage: context.section(stage) for stage in ("semantics", "epochs")}
    both: dict[tuple[str, str], dict[str, Any]] = {}  # by what is looked for: one folder is named once
    for stage, settings in sections.items():
        if settings is not None:
            both.setdefault((settings.data, settings.missing), {})[stage] = settings
    for same in both.values():
        wanted = dict.fromkeys(task for settings in same.values() for task in settings.tasks)
        parameters = " and ".join(f"{stage}.data" for stage in same)
        yield from tasks(context, parameters, next(iter(same.values())), [*wanted])


def check_weights(context: Context) -> Iterator[Finding]:
    """Check the weights of the image network, or the precomputed features."""
    settings = context.section("features")
    if settings is None:
        return
    inputs, weights = context.root / settings.inputs, settings.weights
    if settings.source == "precomputed":
        names = [settings.precomputed] if isinstance(settings.precomputed, str) else settings.precomputed
        files = [("precomputed", name) for name in names]
        if settings.precomputed_ids not in ("", ORDER):
            files.append(("precomputed_ids", settings.precomputed_ids))
        missing = [(name, file) for name, file in files if not (inputs / file).is_file() and not any(inputs.glob(file))]
        for name, file in missing:
            yield problem(f"features.{name}: {inputs / file} does not exist", "Put it there, or fix the name.")
        if not missing:
            yield good(f"{inputs / names[0]} exists")
    elif weights == RANDOM:
        yield good("the image network has random weights: for demonstration")
    elif not is_weights_file(weights) and (weights != PACKAGE or ":" in settings.backbone):
        what = f"the publisher of {settings.backbone} has its weights: the first run downloads those that are not here"
        yield good(what + " (without a network: `sightword fetch weights`)" * (weights != PACKAGE))
    else:
        yield _check_file(context, settings)


def _check_file(context: Context, settings: Any) -> Finding:
    """Check that a file with weights exists; the stage features compares its sha256 before it computes."""
    try:
        packaged = settings.weights == PACKAGE
        path = packaged_weights(settings.backbone) if packaged else context.root / settings.inputs / settings.weights
    except WeightsError as error:
        return failure(error, "Give this network a file, or published weights.")
    if path.is_file():
        return good(f"{path} exists")
    report = warning if context.has_run("features") and not packaged else problem
    file = f"Put the file with the sha256 {settings.weights_sha256} there; features in the store do not need it."
    return report(f"features.weights: {path} does not exist", "Install its package again." if packaged else file)


CHECKS = (
    Check("corpus", check_corpus, needs_project=True),
    Check("semantics", check_semantics, needs_project=True),
    Check("weights", check_weights, needs_project=True),
)
