"""What a run reads and does not make: corpus, evaluation sets, weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.doctor.context import Situation, precomputed_shape
from pipeline.doctor.findings import Note, good, problem, warning
from pipeline.doctor.formats import size, some
from sightword.corpus.listing import list_pictures
from sightword.errors import CorpusError, SemanticsError
from sightword.features.settings import RANDOM, is_weights_file
from sightword.files import sha256_file

_PLACES = "data/raw/README.md tells where it goes; `sightword fetch --help` what can be downloaded."


def look_at_corpus(situation: Situation) -> Iterator[Note]:
    """The files that the corpus's format needs, and its pictures."""
    settings = situation.section("corpus")
    if settings is None or situation.project is None:
        return
    path = situation.project / settings.path
    if not path.is_dir():
        yield problem(f"corpus.path = {settings.path}: there is no such folder", _fetch(situation, settings.path))
        return
    try:
        files = _corpus_files(path, settings)
    except CorpusError as error:
        yield problem(f"{error.where}: {error.what}", error.todo or _PLACES)
        return
    missing = [name for name in files if not (path / name).is_file()]
    empty = [name for name in files if (path / name).is_file() and not (path / name).stat().st_size]
    if missing:
        yield problem(f"{settings.path} lacks {some(missing)} (corpus.format: {settings.format})", _PLACES)
    if empty:
        yield problem(f"{settings.path}: {some(empty)} is empty", "Fetch it again.")
    pictures = situation.project / settings.pictures
    if settings.format != "sample" and settings.require_pictures and not _has_files(pictures):
        yield problem(
            f"corpus.pictures = {settings.pictures}: no pictures are there",
            f"{_PLACES} Set corpus.require_pictures to false where features come precomputed.",
        )
    elif not missing and not empty:
        yield good(f"{settings.path} has what the format {settings.format} needs")
    yield from _names(path, settings.path)
    yield from _tracked(situation, settings.path)


def _names(path: Path, shown: str) -> Iterator[Note]:
    """Names and links at which DVC stops, though the stage corpus would not."""
    try:
        listing = list_pictures(path, required=True)
    except CorpusError as error:
        yield problem(f"{error.where}: {error.what}", "Give yourself the right to read it.")
        return
    assert listing is not None
    if listing.misnamed:
        yield problem(
            f"{shown}: DVC stops at a name that is not UTF-8: {some(sorted(listing.misnamed))}", "Rename or remove it."
        )
    if listing.circular:
        yield problem(f"{shown}: DVC stops at a circular link: {some(sorted(listing.circular))}", "Remove it.")


def _corpus_files(path: Path, settings: Any) -> list[str]:
    """The files that a format needs, from its folder.

    Raises:
        CorpusError: it cannot be told which file is meant.
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
    return [one_file(path, settings.file, patterns, _PLACES).relative_to(path).as_posix()]


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _tracked(situation: Situation, path: str) -> Iterator[Note]:
    """Whether data that somebody put here is known to DVC or git, so that others and experiments find it."""
    import subprocess

    assert situation.project is not None
    places = [Path(path), *Path(path).parents]
    if any((situation.project / f"{place}.dvc").is_file() for place in places if place.name):
        return
    command = ["git", "--no-optional-locks", "ls-files", "--", path]
    try:
        done = subprocess.run(command, cwd=situation.project, capture_output=True, check=False)  # noqa: S603 - fixed words
    except OSError:
        return  # told where git is looked at
    if not done.returncode and not done.stdout:
        yield warning(
            f"{path} is known to neither DVC nor git: experiments in a copy of the workspace will not find it",
            f"`dvc add {path}`, then commit {path}.dvc.",
        )


def _fetch(situation: Situation, path: str) -> str:
    assert situation.project is not None
    if (situation.project / f"{path}.dvc").is_file():
        return f"`dvc pull {path}.dvc`."
    return _PLACES


def look_at_semantics(situation: Situation) -> Iterator[Note]:
    """The evaluation sets that the parameters name."""
    from sightword.semantics.datasets import missing_file

    if situation.project is None or situation.settings is None:
        return
    made = [out for out in _outputs(situation) if "corpus" in out]
    for stage in ("semantics", "epochs"):
        settings = situation.section(stage)
        data = situation.project / settings.data
        if not settings.tasks:
            continue
        if not (data / "downstream").is_dir() and any(settings.data.startswith(f"{out}/") for out in made):
            yield good(f"{stage}.data = {settings.data}: the stage corpus makes it")
            continue
        gone, wrong = [], []
        for task in settings.tasks:
            try:
                missing = missing_file(task, data)
            except SemanticsError as error:
                wrong.append(f"{error.where + ': ' if error.where else ''}{error.what}")
                continue
            if missing is not None:
                gone.append(f"{task} ({missing})")
        if wrong:
            yield problem(f"{stage}: {wrong[0]}", _fetch(situation, settings.data))
        if gone and settings.missing == "skip":
            yield warning(f"{stage}.data = {settings.data} lacks {some(gone)}: left out", _PLACES)
        elif gone:
            yield problem(f"{stage}.data = {settings.data} lacks {some(gone)}", _fetch(situation, settings.data))
        elif not wrong:
            yield good(f"{stage}.data = {settings.data} has the files of {len(settings.tasks)} tasks")


def _outputs(situation: Situation) -> list[str]:
    """The outputs of the stage corpus."""
    stages = situation.pipeline.get("stages")
    stage = stages.get("corpus") if isinstance(stages, dict) else None
    outs = stage.get("outs", []) if isinstance(stage, dict) else []
    return [str(next(iter(out)) if isinstance(out, dict) else out) for out in outs]


def look_at_weights(situation: Situation) -> Iterator[Note]:
    """The weights of the image network, or the precomputed features."""
    settings = situation.section("features")
    if settings is None or situation.project is None:
        return
    inputs = situation.project / settings.inputs
    if settings.source == "precomputed":
        yield from _precomputed(inputs, settings)
    elif settings.weights == RANDOM:
        yield good("the image network has random weights: for demonstration")
    elif is_weights_file(settings.weights):
        yield from _file(situation, inputs / settings.weights, settings)
    else:
        yield from _published(situation, settings)


def _precomputed(inputs: Path, settings: Any) -> Iterator[Note]:
    path = inputs / settings.precomputed
    if not path.is_file():
        yield problem(f"features.precomputed: {path} is not there", "Put it there, or mend the name.")
        return
    shape = precomputed_shape(path)
    if shape is None or len(shape) != 2:
        yield problem(f"{path} is no table of features", "It must be a .npy of (pictures, numbers), or a features.h5.")
        return
    ids = inputs / settings.precomputed_ids
    if settings.precomputed_ids and not ids.is_file():
        yield problem(f"features.precomputed_ids: {ids} is not there", "Put it there, or mend the name.")
        return
    if settings.precomputed_ids:
        with open(ids, "rb") as file:
            lines = sum(1 for line in file if line.strip())
        if lines != shape[0]:
            yield problem(f"{path} has {shape[0]} rows, but {ids} {lines} ids", "Take the two that belong together.")
            return
    yield good(f"{path}: {shape[0]} pictures, {shape[1]} numbers each")


def _file(situation: Situation, path: Path, settings: Any) -> Iterator[Note]:
    if not path.is_file():
        say = warning if situation.is_current("features") else problem
        yield say(
            f"features.weights: {path} is not there",
            f"Put the file with the sha256 {settings.weights_sha256} there; features that are in the store need none.",
        )
    elif not situation.quick and (found := sha256_file(path)) != settings.weights_sha256.lower():
        yield problem(
            f"{path} has the sha256 {found}, not {settings.weights_sha256}",
            "Fetch it again; or, if it is the one you want, write its sha256 to features.weights_sha256.",
        )
    else:
        yield good(f"{path} is there" + ("" if situation.quick else " and the one that was asked for"))


def _published(situation: Situation, settings: Any) -> Iterator[Note]:
    facts = situation.facts("torch")
    if "accepted" not in facts:
        return  # left out, or torch cannot be used, which is told there
    if settings.weights not in facts["accepted"]:
        yield problem(
            f"features.weights = {settings.weights}: torchvision publishes no such weights for {settings.backbone}",
            f"Take one of {', '.join(facts['accepted']) or 'another network'}, a file, or {RANDOM}.",
        )
        return
    path = Path(facts["hub"]) / "checkpoints" / facts["url"].rpartition("/")[2]
    name = re.search(r"-([0-9a-f]{8,})\.", path.name)
    if not path.is_file():
        yield warning(
            f"{path} is not there: the first run downloads {size(facts['weights_bytes'])}",
            f"Without a network: put {facts['url']} there first (`sightword fetch weights`).",
        )
        return
    found = sha256_file(path)
    if settings.weights_sha256 and found != settings.weights_sha256.lower():
        yield problem(f"{path} has the sha256 {found}, not {settings.weights_sha256}", "Mend features.weights_sha256.")
    elif name and not found.startswith(name.group(1)):
        yield problem(f"{path} is not the file that its name says", f"`rm {path}`: it is downloaded again.")
    else:
        yield good(f"{path} is there and the one that was published")
