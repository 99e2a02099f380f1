"""Facts of a run (versions, machine, device, duration), which never enter a hash, and the scorings of test splits.

Each run of a stage under DVC leaves one JSON in the project's ``runs/``, which git ignores, and in the store that a
lab shares, by the name of the run (:func:`~pipeline.lineage.evidence.run_id`). Git has the last run of each stage,
``runs/<pipeline>/<stage>.json``; a run with equal hashes leaves this file as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import re
import resource
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.lineage import code_lists
from pipeline.lineage.evidence import RUNS, SCHEMA, SCORINGS, KnownFacts, run_id, scorings_of
from pipeline.lineage.files import Ignored, hash_path, md5_of, measure, stamp
from pipeline.lineage.lock import entry_key, is_code, overlaps
from pipeline.lineage.repository import git_output
from pipeline.pipelines import (
    IGNORE,
    LEDGER,
    LOCK,
    Pipeline,
    by_stage,
    folder_of,
    full_name,
    parameter,
    pipelines,
    project_of,
    stage_of,
)
from sightword.errors import FileFormatError, LineageError, SightwordError
from sightword.evaluation import ledger
from sightword.evaluation.ledger import Scoring
from sightword.io import yaml_reader
from sightword.io.files import Pathish, canonical_json, loads, read_text, write_text
from sightword.io.group_files import write_new
from sightword.machine import Machine, processor
from sightword.messages import and_more, flat

log = logging.getLogger(__name__)

LARGE = 1 << 31
"""Bytes: a half-done run knows larger data by the names, sizes and times of the files."""
OUTS = ("outs", "metrics", "plots")
"""The lists of ``dvc.yaml`` with a stage's outputs."""
PACKAGES = (
    *("torch", "torchvision", "timm", "openvino", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "h5py"),
    *("pillow", "simplejpeg", "dvc", "sightword"),
)
"""The packages whose versions are kept: those that can change an output, and the programs."""
FIRST = "first"
"""The folder of the first pipeline's facts in git."""
_NOT_IN_GIT = ("host", "platform", "experiment", SCORINGS)
"""What the facts in git leave out: names of machines, and the scorings, which the ledger has."""
_CODE = Path(__file__).resolve().parents[2]
"""The folder of the code that runs, which need not be the project's."""
_VARIABLE = re.compile(r"\$\{([^}]+)\}")


class Recorder:
    """Collects the facts of one run of a stage, named by its address with its item, such as ``train@cg-0``."""

    def __init__(self, stage: str, project: Path, here: Machine) -> None:
        self._stage, self._project, self._machine = stage, project, here
        self._began = datetime.now(UTC)
        self._clock = time.monotonic()
        self._watched = _watched(stage, project)
        self._versions = _versions(project, *self._watched)

    def check_unchanged(self, *, kept: bool = False) -> None:
        """Check that parameters, code and raw data are still those with which the run began; LineageError otherwise.

        DVC takes their hashes and values after the stage has ended, and would record the new ones with what the old
        ones made. ``kept``: a checkpoint has the finished work, which a run with the old ones takes over.
        """
        before, now = self._versions, _versions(self._project, *self._watched)
        if changed := [name for name in {**before, **now} if repr(before.get(name)) != repr(now.get(name))]:
            new, old = ("new version", "old one") if len(changed) == 1 else ("new versions", "old ones")
            what = f"{and_more(changed, 5)} changed while the stage ran, and DVC would record the {new} with what the"
            todo = "Run it again, with the version that you want; leave parameters, code and data alone meanwhile."
            finished = f" With the {old} back, the next run takes over the finished training." if kept else ""
            raise LineageError(f"{what} {old} made", todo=todo + finished)

    def finish(self, notes: Mapping[str, Any] | None = None, scorings: Sequence[Scoring] | None = None) -> Path | None:
        """Write the facts with the stage's notes and scorings, once the outputs are in place, and return the file.

        Where they cannot be written, the log has a warning, since the work is done, and the result is None.
        """
        seconds = time.monotonic() - self._clock
        try:
            ran, outs = _own_entry(self._stage, self._project)
            name = run_id(entry_key(self._stage, **ran), outs)
            facts = {**self._facts(seconds, notes or {}), "id": name, "ran": ran, "outs": outs}
            if scorings is not None:
                facts[SCORINGS] = [asdict(one) for one in scorings]
            text = _text(facts)
            # An experiment's own folder is deleted after it; DVC names the project it belongs to.
            path = Path(os.environ.get("DVC_ROOT") or self._project) / RUNS / f"{name}.json"
            write_text(path, text)
            self._keep_in_git(facts)
            shared = self._machine.local_store / RUNS / path.name
            if not shared.exists():  # the first run's facts stay
                write_new(shared, text.encode())
        except Exception as error:  # noqa: BLE001 - DVC deletes the outputs of a run that fails: hours of work, lost for a note on them
            why = error if isinstance(error, OSError | SightwordError) else f"{type(error).__name__}: {error}"
            log.warning("%s: the facts of this run are not kept (%s)", self._stage, why)
            return None
        return path

    def _keep_in_git(self, facts: Mapping[str, Any]) -> None:
        """Write the facts that git has of the stage, unless they are of a run with equal hashes."""
        path = self._project / RUNS / (folder_of(self._stage) or FIRST) / f"{self._stage.rpartition(':')[2]}.json"
        with contextlib.suppress(SightwordError, OSError, ValueError, AttributeError):
            if loads(read_text(path)).get("id") == facts["id"]:
                return
        write_text(path, _text({name: value for name, value in facts.items() if name not in _NOT_IN_GIT}))

    def _facts(self, seconds: float, notes: Mapping[str, Any]) -> dict[str, Any]:
        # A run itself rewrites the excluded files, and its beginning removes the file that hides the pipeline from DVC.
        excluded = (f":!{LOCK}", f":(exclude,glob)*/{LOCK}", f":(exclude,glob)*/{IGNORE}", ":!metrics", ":!plots",
                    f":!{RUNS}")  # fmt: skip
        uncommitted = git_output(self._project, "diff", "HEAD", "--name-only", "-z", "--", ".", *excluded)
        return {
            "schema": SCHEMA,
            "stage": self._stage,
            "started": self._began.isoformat(timespec="seconds"),
            "seconds": round(seconds, 1),
            "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "host": socket.gethostname(),
            "platform": platform.platform(),
            "processor": processor(),
            "device": _device(),
            "threads": self._machine.threads,
            "engine": "openvino" if self._machine.engine == "openvino" else "torch",
            "workers": self._machine.workers,
            "commit": git_output(self._project, "rev-parse", "HEAD"),
            "uncommitted": None if uncommitted is None else uncommitted.split("\0")[:-1],
            "experiment": os.environ.get("DVC_EXP_NAME"),
            "notes": dict(notes),
            "python": platform.python_version(),
            "packages": packages_here(),
        }


def _text(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


def packages_here() -> dict[str, str]:
    """Return the versions of :data:`PACKAGES` that are installed; a half-installed package has none."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, KeyError):
            versions[name] = importlib.metadata.version(name)
    return {name: version for name, version in versions.items() if version}


def _own_entry(stage: str, project: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the inputs of a stage that has just run, as :func:`entry_key` takes them, and its outputs' hashes."""
    described, sections, deps, outs = _described(stage, project)
    command, ignored = described["cmd"], Ignored(project)
    # With `dvc repro --single-item` an input need not be the one in the lock.
    read, wrote = ({path: hash_path(project / path, ignored).md5 for path in paths} for paths in (deps, outs))
    ran = {"command": command if isinstance(command, str) else "\n".join(command), "params": sections, "deps": read}
    return ran, wrote


def _described(stage: str, project: Path) -> tuple[Mapping[str, Any], dict[str, dict[str, Any]], list[str], list[str]]:
    """Return a stage as in ``dvc.yaml``, the parameters it reads by their file, its dependencies and its outputs."""
    try:
        pipeline = by_stage(project)[stage_of(stage)]
        described = pipeline.runs()[stage]
        read = params_files(described, pipeline)
        params = {file: yaml_reader.parse(read_text(project / file), file) for file in read}
        used = ((file, names) for file, names in read.items() if names)
        sections = {file: {name: parameter(params[file], name) for name in names} for file, names in used}
        return described, sections, *stage_paths(described, params[pipeline.params])
    except FileFormatError as error:
        raise LineageError(error.what, where=error.where) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise LineageError(f"does not describe the stage {stage} plainly ({error})", where="dvc.yaml") from None


def _watched(stage: str, project: Path) -> tuple[dict[str, list[str]], list[str], list[str]]:
    """Return the names of a stage's parameters by their file, and the paths of its code and raw data: what people edit.

    DVC itself guards the outputs of other stages.
    """
    try:
        _, sections, deps, _ = _described(stage, project)
        made = [out for pipeline in pipelines(project) for out in _outs(pipeline)]
    except (SightwordError, OSError, KeyError, TypeError, AttributeError):
        return {}, [], []  # whoever records the facts tells of it
    raw = [path for path in deps if not overlaps(path, made)]
    raw = [path for path in raw if Path(path).name != LEDGER]  # a stage that scores writes there itself
    code, data = ([path for path in raw if is_code(path) == wanted] for wanted in (True, False))
    return {file: [*values] for file, values in sections.items()}, code, data


def _outs(pipeline: Pipeline) -> Iterator[str]:
    """Yield the outputs of all stages of a pipeline."""
    params = yaml_reader.parse(read_text(pipeline.project / pipeline.params), pipeline.params)
    for described in pipeline.runs().values():
        yield from stage_paths(described, params)[1]


def _versions(
    project: Path, parameters: Mapping[str, Sequence[str]], code: Sequence[str], data: Sequence[str]
) -> dict[str, Any]:
    """Return the values of parameters, the hashes of code and the times of data, by name; None for an unread one."""
    versions: dict[str, Any] = {}
    for file, names in parameters.items():
        values: Any = None
        with contextlib.suppress(SightwordError, OSError):
            values = yaml_reader.parse(read_text(project / file), file)
        flattened = flat({name: parameter(values, name, None) for name in names})
        versions |= {full_name(file, name): value for name, value in flattened.items()}
    ignored = Ignored(project)
    for path in (*code, *data):
        versions[path] = None
        with contextlib.suppress(OSError):
            # Data may be too large to be read once more.
            versions[path] = hash_path(project / path, ignored).md5 if path in code else stamp(project / path, ignored)
        if code_lists.is_list(path):
            versions |= code_lists.installed(path)
    return versions


def params_files(described: Mapping[str, Any], pipeline: Pipeline) -> dict[str, list[str]]:
    """Return the sections, or keys such as ``train.common``, that a stage reads, by the file of parameters.

    The pipeline's own file is always there.
    """
    sections: dict[str, list[str]] = {pipeline.params: []}
    for one in described.get("params", []):
        for file, names in one.items() if isinstance(one, Mapping) else [(pipeline.params, [one])]:
            sections.setdefault(file, []).extend(names)
    return sections


def listed(described: Mapping[str, Any], kinds: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the paths of a stage in ``dvc.yaml``, each with its options."""
    for item in (item for kind in kinds for item in described.get(kind, [])):
        yield from item.items() if isinstance(item, Mapping) else [(item, {})]


def stage_paths(described: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return a stage's dependencies and outputs, with the values of parameters in them; KeyError without the value."""

    def value(match: re.Match[str]) -> str:
        return str(parameter(params, match[1]))

    deps, outs = ([_VARIABLE.sub(value, path) for path, _ in listed(described, kinds)] for kinds in (("deps",), OUTS))
    return deps, outs


def _device() -> str:
    """Return the GPU that torch worked on, with its driver's CUDA; ``cpu`` where torch used no GPU or is absent."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return "cpu"
    return f"{torch.cuda.get_device_name()} (CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()})"


def inputs_hash(described: Mapping[str, Any], params: Pathish, item: Mapping[str, Any]) -> str:
    """Return the sha256 of the dependencies of a stage of ``dvc.yaml``, for an ``item`` of its matrix.

    A half-done run goes on with the same inputs only. Data above :data:`LARGE` bytes counts by the names, sizes and
    times of the files. A LineageError names a parameter that the file lacks.
    """
    values = yaml_reader.parse(read_text(params), str(params))
    try:
        deps, _ = stage_paths({"deps": described.get("deps", [])}, {**values, "item": item})
    except KeyError as error:
        raise LineageError(f"has no {error.args[0]}, which a dependency of the stage names", where=params) from None
    rooms = [path for path in deps if is_code(path) and not code_lists.is_list(path)]  # a list is the program's
    hashes = {path: _of_code(_CODE / path) if path in rooms else _of_data(Path(path).absolute()) for path in deps}
    return hashlib.sha256(canonical_json(hashes).encode()).hexdigest()


def _of_code(path: Path) -> Any:
    """Return the hashes of the files of a room, or of one file, by name."""
    files = path.rglob("*") if path.is_dir() else [path]
    return {
        file.relative_to(_CODE).as_posix(): md5_of(file)
        for file in sorted(files)
        if file.is_file() and "__pycache__" not in file.parts
    }


def _of_data(path: Path) -> str | None:
    """Return the hash of a file or folder; None where it is missing, which the stage itself reports."""
    if not path.exists():
        return None
    ignored = Ignored(Path.cwd())
    return stamp(path, ignored) if measure(path, ignored) > LARGE else hash_path(path, ignored).md5


class Entering:
    """Enters the scorings of a stage in the ledger of its pipeline, below the current folder.

    The ledger also gets the scorings of this pipeline that the facts in the project's ``runs/`` know, such as those of
    experiments that ran in copies of the project.
    """

    def __init__(self, pipeline: Pipeline, entry: str, params: Pathish) -> None:
        self._pipeline, self._entry, self._params = pipeline, entry, params
        self.scorings: list[Scoring] = []
        """The scorings of this run."""

    def __call__(self, scorings: Sequence[Scoring]) -> Sequence[Scoring]:
        """Enter scorings, and return all that the ledger has; a call without any changes nothing."""
        place = Path(self._pipeline.ledger)
        if not scorings:
            return ledger.read(place)
        recipe, stage = recipe_hash(self._entry, self._params), stage_of(self._entry).rpartition(":")[2]
        entered = [replace(one, recipe=recipe, stage=stage) for one in scorings]
        self.scorings += entered
        runs = Path(os.environ.get("DVC_ROOT") or Path.cwd()) / RUNS
        known = KnownFacts([runs]).scorings()
        return ledger.add(place, [*(one for at, one in known if folder_of(at) == self._pipeline.folder), *entered])


def recipe_hash(entry: str, params: Pathish) -> str:
    """Return the hash of the parameters of a stage, in the file ``params``, and of all stages that feed it.

    Raises:
        LineageError: the stage is not in a ``dvc.yaml``, or a file of parameters lacks what a stage reads.
    """
    project = project_of(Path.cwd())
    stages: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {}
    for pipeline in pipelines(project):
        has_entry = pipeline.folder == folder_of(entry)
        if not has_entry and not (project / pipeline.params).is_file():
            continue  # a copy in which one stage runs again has what this stage reads
        source = params if has_entry else project / pipeline.params
        values = {pipeline.params: yaml_reader.parse(read_text(source), params)}
        for address, described in pipeline.runs().items():
            params_read: dict[str, Any] = {}
            for file, names in params_files(described, pipeline).items():
                if file not in values:
                    values[file] = yaml_reader.parse(read_text(project / file), file)
                params_read |= {full_name(file, name): parameter(values[file], name, None) for name in names}
            try:
                stages[address] = (params_read, *stage_paths(described, values[pipeline.params]))
            except KeyError as error:
                raise LineageError(f"has no {error.args[0]}, which {address} reads", where=params) from None
    if entry not in stages:
        raise LineageError(f"has no stage {entry}", where="dvc.yaml")
    chain, new = set[str](), {entry}
    while new:
        chain |= new
        deps = [dep for name in new for dep in stages[name][1]]
        feeding = {n for n, (_, _, outs) in stages.items() if any(overlaps(dep, outs) for dep in deps)}
        new = feeding - chain
    used: dict[str, Any] = {}
    for name in sorted(chain):
        used |= stages[name][0]
    return hashlib.sha256(canonical_json(used).encode()).hexdigest()[: ledger.DIGITS]


@dataclass(frozen=True)
class Tally:
    """How often a split was scored on which a stage of a chain scored an encoder."""

    stage: str
    split: str
    of: str
    items: int
    rows: str
    """The hash of the split."""
    scorings: int
    encoders: int
    epochs: int
    """The snapshots of single epochs that were scored too."""


def tallies(stages: Mapping[str, Mapping[str, Any] | None], project: Path, facts: KnownFacts) -> list[Tally]:
    """Return the counts of the splits that some stages scored, over the ledgers of a project and the known facts.

    ``stages`` has the facts of each stage's run. Without facts, or where they have no scorings, each split counts that
    the ledger has of the stage. A FileFormatError tells of an edited or damaged ledger.
    """
    entered = {
        (pipeline.address(one.stage), one): None
        for pipeline in pipelines(project)
        for one in ledger.read(project / pipeline.ledger)
    }
    entered |= dict.fromkeys(facts.scorings())
    tallied = []
    for entry, run in stages.items():
        address = stage_of(entry)
        told = scorings_of(run) if run else None
        shown = [one for at, one in entered if at == address] if told is None else told
        for key in dict.fromkeys((one.split, one.of, one.items, one.rows) for one in shown):
            same = [one for _, one in entered if (one.of, one.rows) == (key[1], key[3])]
            encoders = sum(one.stage != ledger.EPOCHS for one in same)
            counted = ledger.count(same, key[1], key[3])
            tallied.append(Tally(address, *key, encoders, counted.encoders, counted.epochs))
    return tallied
