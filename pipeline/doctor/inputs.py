"""Check the inputs of a run: corpus, evaluation sets, weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Note, good, message, problem, warning
from pipeline.doctor.project import git_output
from sightword.corpus.listing import list_pictures
from sightword.errors import CorpusError, SemanticsError
from sightword.features.settings import RANDOM, is_weights_file
from sightword.files import sha256_file
from sightword.text import and_more, size

_README = "data/raw/README.md describes where it belongs; `sightword fetch --help` lists what can be downloaded."


def check_corpus(context: Context) -> Iterator[Note]:
    """Check the files that the corpus's format needs, and its pictures."""
    settings = context.section("corpus")
    if settings is None or context.project is None:
        return
    path = context.project / settings.path
    if not path.is_dir():
        yield problem(f"corpus.path = {settings.path}: there is no such folder", _advice(context, settings.path))
        return
    try:
        files = _corpus_files(path, settings)
        listing = list_pictures(path, required=True)
    except CorpusError as error:
        yield problem(message(error), error.todo or _README)
        return
    assert listing is not None
    missing = [name for name in files if not (path / name).is_file()]
    empty = [name for name in files if (path / name).is_file() and not (path / name).stat().st_size]
    if missing:
        yield problem(f"{settings.path} lacks {and_more(missing, 5)} (corpus.format: {settings.format})", _README)
    if empty:
        yield problem(f"{settings.path}: {and_more(empty, 5)} is empty", "Fetch it again.")
    pictures = context.project / settings.pictures
    there = pictures.is_dir() and any(pictures.iterdir())
    if settings.format != "sample" and settings.require_pictures and not there:
        yield problem(
            f"corpus.pictures = {settings.pictures}: there are no pictures",
            f"{_README} Set corpus.require_pictures to false where features come precomputed.",
        )
    elif not missing and not empty:
        yield good(f"{settings.path} has the files of the format {settings.format}")
    if listing.misnamed:
        names = and_more(sorted(listing.misnamed), 5)
        yield problem(f"{settings.path}: DVC stops at a name that is not UTF-8: {names}", "Rename or remove it.")
    if listing.circular:
        names = and_more(sorted(listing.circular), 5)
        yield problem(f"{settings.path}: DVC stops at a circular link: {names}", "Remove it.")
    yield from _check_tracked(context.project, settings.path)


def _corpus_files(path: Path, settings: Any) -> list[str]:
    """Return the files that a format needs, relative to the corpus's folder.

    Raises:
        CorpusError: several files could be meant, or none.
    """
    from sightword.corpus import flickr8k
    from sightword.corpus.documents import one_file
    from sightword.corpus.sample.world import FILE

    if settings.format == "sample":
        return [FILE]
    if settings.format == "flickr8k":
        return [flickr8k.CAPTIONS, *flickr8k.LISTS.values()]
    if settings.format == "coco":
        return [*settings.coco_train, *settings.coco_dev, *settings.coco_test]
    patterns = ("dataset_*.json",) if settings.format == "karpathy" else ("*.csv", "*.parquet")
    return [one_file(path, settings.file, patterns, _README).relative_to(path).as_posix()]


def _check_tracked(project: Path, path: str) -> Iterator[Note]:
    """Check that DVC or git tracks the data, so that others and experiments find them."""
    places = [Path(path), *Path(path).parents]
    if any((project / f"{place}.dvc").is_file() for place in places if place.name):
        return
    if git_output(project, "ls-files", "--", path) == "":
        yield warning(
            f"neither DVC nor git tracks {path}: experiments in a copy of the workspace will not find it",
            f"`dvc add {path}`, then commit {path}.dvc.",
        )


def _advice(context: Context, path: str) -> str:
    assert context.project is not None
    return f"`dvc pull {path}.dvc`." if (context.project / f"{path}.dvc").is_file() else _README


def check_semantics(context: Context) -> Iterator[Note]:
    """Check the evaluation sets that the parameters name."""
    from sightword.semantics.datasets import missing_file

    if context.project is None or context.settings is None:
        return
    for stage in ("semantics", "epochs"):
        settings = context.section(stage)
        data = context.project / settings.data
        if not settings.tasks:
            continue
        if not (data / "downstream").is_dir() and settings.data.startswith("data/corpus/"):
            yield good(f"{stage}.data = {settings.data}: the stage corpus makes it")
            continue
        gone, wrong = [], []
        for task in settings.tasks:
            try:
                missing = missing_file(task, data)
            except SemanticsError as error:
                wrong.append(error)
                continue
            if missing is not None:
                gone.append(f"{task} ({missing})")
        if wrong:
            yield problem(f"{stage}: {message(wrong[0])}", _advice(context, settings.data))
        if gone and settings.missing == "skip":
            yield warning(f"{stage}.data = {settings.data} lacks {and_more(gone, 5)}: left out", _README)
        elif gone:
            yield problem(f"{stage}.data = {settings.data} lacks {and_more(gone, 5)}", _advice(context, settings.data))
        elif not wrong:
            yield good(f"{stage}.data = {settings.data} has the files of {len(settings.tasks)} tasks")


def check_weights(context: Context) -> Iterator[Note]:
    """Check the weights of the image network, or the precomputed features."""
    settings = context.section("features")
    if settings is None or context.project is None:
        return
    inputs = context.project / settings.inputs
    if settings.source == "precomputed":
        yield from _check_precomputed(inputs, settings)
    elif settings.weights == RANDOM:
        yield good("the image network has random weights: for demonstration")
    elif is_weights_file(settings.weights):
        yield _check_file(context, inputs / settings.weights, settings)
    else:
        yield from _check_published(context, settings)


def _check_precomputed(inputs: Path, settings: Any) -> Iterator[Note]:
    names = {"precomputed": settings.precomputed, "precomputed_ids": settings.precomputed_ids}
    missing = [name for name, file in names.items() if file and not (inputs / file).is_file()]
    for name in missing:
        yield problem(f"features.{name}: {inputs / names[name]} does not exist", "Put it there, or fix the name.")
    if not missing:
        yield good(f"{inputs / settings.precomputed} exists")


def _check_file(context: Context, path: Path, settings: Any) -> Note:
    if not path.is_file():
        report = warning if context.has_run("features") else problem
        return report(
            f"features.weights: {path} does not exist",
            f"Put the file with the sha256 {settings.weights_sha256} there; features in the store do not need it.",
        )
    if context.quick:
        return good(f"{path} exists")
    if (found := sha256_file(path)) != settings.weights_sha256.lower():
        return problem(
            f"{path} has the sha256 {found}, not {settings.weights_sha256}",
            "Fetch it again; or, if it is the right file, write its sha256 to features.weights_sha256.",
        )
    return good(f"{path} has the sha256 of the parameters")


def _check_published(context: Context, settings: Any) -> Iterator[Note]:
    facts = context.ask("torch")
    if "accepted" not in facts:
        return  # not asked, or the check of torch reports the error
    if settings.weights not in facts["accepted"]:
        yield problem(
            f"features.weights = {settings.weights}: torchvision publishes no such weights for {settings.backbone}",
            f"Use one of {', '.join(facts['accepted']) or 'another network'}, a file, or {RANDOM}.",
        )
        return
    path = Path(facts["hub"]) / "checkpoints" / facts["url"].rpartition("/")[2]
    name = re.search(r"-([0-9a-f]{8,})\.", path.name)
    if not path.is_file():
        yield warning(
            f"{path} does not exist: the first run downloads {size(facts['weights_bytes'])}",
            f"Without a network: put {facts['url']} there first (`sightword fetch weights`).",
        )
        return
    found = sha256_file(path)
    if settings.weights_sha256 and found != settings.weights_sha256.lower():
        yield problem(f"{path} has the sha256 {found}, not {settings.weights_sha256}", "Fix features.weights_sha256.")
    elif name and not found.startswith(name.group(1)):
        yield problem(f"{path} does not have the sha256 in its name", f"`rm {path}`: it is downloaded again.")
    else:
        yield good(f"{path} is the published file")
