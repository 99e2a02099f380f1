"""Facts of a run: versions, machine, device, duration. They explain a number and never enter its hash.

Each run of a stage under DVC leaves one JSON in the project's ``runs/`` and in the store that a lab shares. Its name is
the key of DVC's run-cache with another hash: command, parameters and dependencies
(:func:`pipeline.lineage.lock.entry_key`). Whoever has the same entry in ``dvc.lock``, from a colleague's push or from
the run-cache, so finds who made it, and how.
"""

from __future__ import annotations

import contextlib
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.lineage import documents
from pipeline.lineage.hashing import Ignored, hash_path, measure
from pipeline.lineage.lock import Entry, entry_key, tracked_hashes
from pipeline.lineage.locks import lock_here
from pipeline.lineage.repository import git
from pipeline.pipelines import LOCK, Pipeline, by_stage, pipelines
from sightword.errors import FileFormatError, LineageError
from sightword.files import write_text
from sightword.group_files import write_new
from sightword.machine import Machine

log = logging.getLogger(__name__)

RUNS = "runs"
"""The folder, in a project and in a store."""
SCHEMA = 2
_VARIABLE = re.compile(r"\$\{([^}]+)\}")


class Recorder:
    """Takes the facts of one run of a stage.

    Args:
        stage: its name.
        project: the folder with ``dvc.yaml``.
        here: the machine's settings; its store has a copy of all facts.
    """

    def __init__(self, stage: str, project: Path, here: Machine) -> None:
        self._stage, self._project, self._machine = stage, project, here
        self._began = datetime.now(UTC)
        self._clock = time.monotonic()

    def finish(self, notes: Mapping[str, Any] | None = None) -> Path | None:
        """Write the facts, once the outputs are in place. No error leaves this method: the work is done.

        Args:
            notes: what the stage itself has to say, such as the weights it used.

        Returns:
            Where they are; None where they could not be written, which is warned of.
        """
        seconds = time.monotonic() - self._clock
        try:
            ran, outs = _own_entry(self._stage, self._project)
            key = entry_key(self._stage, **ran)
            facts = {**self._facts(seconds, notes or {}), "entry": key, "ran": ran, "outs": outs}
            text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
            # An experiment's own folder is deleted after it; DVC names the project it belongs to.
            path = Path(os.environ.get("DVC_ROOT") or self._project) / RUNS / f"{key}.json"
            write_text(path, text)
            shared = self._machine.store / RUNS / path.name
            if not shared.exists():  # who made it first stays
                write_new(shared, text.encode())
        except Exception as error:  # noqa: BLE001 - DVC deletes the outputs of a run that fails: hours of work, lost for a note on them
            why = f"{type(error).__name__}: {error}" if not isinstance(error, OSError | LineageError) else error
            log.warning("%s: the facts of this run are not kept (%s)", self._stage, why)
            return None
        return path

    def _facts(self, seconds: float, notes: Mapping[str, Any]) -> dict[str, Any]:
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
            "workers": self._machine.workers,
            "commit": _git(self._project, "rev-parse", "HEAD"),
            "uncommitted": _uncommitted(self._project),
            "experiment": os.environ.get("DVC_EXP_NAME"),
            "notes": dict(notes),
            "python": platform.python_version(),
            "packages": packages_here(),
        }


def packages_here() -> dict[str, str]:
    """The version of each installed package, by name; without those whose installation was cut off."""
    described = [one.metadata for one in importlib.metadata.distributions()]
    # Their metadata is None or empty, as the version of Python has it.
    found = {one["Name"]: one["Version"] for one in described if one and "Name" in one and "Version" in one}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def read_facts(entry: Entry, folders: Sequence[Path]) -> dict[str, Any] | None:
    """Return the facts of the run that made an entry, from the first of some folders that has them; None without any.

    Args:
        entry: of a lock.
        folders: such as a project's ``runs/`` and a store's.
    """
    return next((facts for _, facts in facts_of(entry, folders) if not unlike(facts, entry)), None)


def facts_of(entry: Entry, folders: Sequence[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the facts of runs with the inputs of an entry, whatever their outputs, and the file of each."""
    for path in (folder / f"{entry.key}.json" for folder in folders):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            if not isinstance(error, FileNotFoundError):
                log.warning("%s: cannot be read (%s)", path, error)
            continue
        if not isinstance(found, dict) or found.get("entry") != entry.key:
            log.warning("%s: holds facts of another run", path)
        elif found.get("schema") != SCHEMA:
            log.warning("%s: was written by another version of Sightword", path)
        elif not _is_whole(found):
            log.warning("%s: was edited", path)
        else:
            yield path, found


def _is_whole(facts: Mapping[str, Any]) -> bool:
    """Whether the inputs in some facts are those of their key, and the outputs can be compared."""
    try:
        outs = all(isinstance(out["size"], int) for out in facts["outs"].values())
        return outs and entry_key(facts["stage"], **facts["ran"]) == facts["entry"]
    except (KeyError, TypeError, AttributeError):
        return False


def unlike(facts: Mapping[str, Any], entry: Entry) -> dict[str, tuple[Any, Any]]:
    """Return the outputs in which a run and an entry with the same inputs differ, by path: there and here.

    Facts hold the size of an output, the number of files in a folder, and the MD5 of a file that git keeps. They are
    compared as far as both sides have them.
    """
    outs = {out.path: {"md5": out.md5, "size": out.size, "files": out.files} for out in entry.outs}
    found: dict[str, tuple[Any, Any]] = {}
    for path in {**outs, **facts["outs"]}:
        ran, locked = facts["outs"].get(path, {}), outs.get(path, {})
        for what, word in (("md5", ""), ("size", " (bytes)"), ("files", " (files)")):
            pair = ran.get(what), locked.get(what)
            if pair[0] != pair[1] and (None not in pair or (what == "size" and not (ran and locked))):
                found[f"{path}{word}"] = pair
    return found


def _own_entry(stage: str, project: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs of a stage that has just run, as the arguments of :func:`entry_key`; and what its outputs are like.

    No output is hashed but those that git keeps, which are small: DVC is about to hash the others.
    """
    try:
        pipeline = by_stage(project)[stage]
        described = pipeline.stages[stage]
        params = {file: documents.parse(_read(project / file), file) for file in params_files(described, pipeline)}
        read = params_files(described, pipeline).items()
        sections = {file: {name: params[file][name] for name in names} for file, names in read if names}
        command, (deps, outs) = described["cmd"], stage_paths(described, params[pipeline.params])
        in_git = {
            path for path, options in _listed(described, ("outs", "metrics", "plots")) if not options.get("cache", True)
        }
    except (KeyError, TypeError, AttributeError, FileFormatError) as error:
        raise LineageError(f"does not describe the stage {stage} plainly ({error})", where="dvc.yaml") from None
    ignored, known = Ignored(project), _known(project)
    ran = {
        "command": command if isinstance(command, str) else "\n".join(command),
        "params": sections,
        "deps": {path: known.get(path) or hash_path(project / path, ignored).md5 for path in deps},
    }
    made: dict[str, Any] = {}
    for path in outs:
        size, files = measure(project / path, ignored)
        made[path] = {"size": size} if files is None else {"size": size, "files": files}
        if path in in_git and files is None:
            made[path]["md5"] = hash_path(project / path, ignored).md5
    return ran, made


def params_files(described: Mapping[str, Any], pipeline: Pipeline) -> dict[str, list[str]]:
    """Return the sections that a stage reads, by the file of parameters; the pipeline's own file is always there."""
    found: dict[str, list[str]] = {pipeline.params: []}
    for one in described.get("params", []):
        for file, names in one.items() if isinstance(one, Mapping) else [(pipeline.params, [one])]:
            found.setdefault(file, []).extend(names)
    return found


def _listed(described: Mapping[str, Any], kinds: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The paths of a stage as ``dvc.yaml`` has them, each with its options."""
    for item in (item for kind in kinds for item in described.get(kind, [])):
        yield from item.items() if isinstance(item, Mapping) else [(item, {})]


def stage_paths(described: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the dependencies and the outputs of a stage of ``dvc.yaml``, parameters in their places.

    Raises:
        KeyError: a parameter it names is not there.
    """
    deps, outs = (
        [_filled(path, params) for path, _ in _listed(described, kinds)]
        for kinds in (("deps",), ("outs", "metrics", "plots"))
    )
    return deps, outs


def _known(project: Path) -> dict[str, str]:
    """The hashes of other stages' outputs and of data added to DVC, which DVC has just compared."""
    found: dict[str, str] = {}
    if any((project / pipeline.lock).is_file() for pipeline in pipelines(project)):
        for entry in lock_here(project).entries.values():
            found |= {out.path: out.md5 for out in entry.outs}
    for path in (project / "data" / "raw").rglob("*.dvc"):
        # A file that cannot be read saves no work, and does no harm: what it names is hashed.
        with contextlib.suppress(OSError, UnicodeDecodeError, LineageError):
            found |= tracked_hashes(_read(path), path.relative_to(project).as_posix())
    return found


def _filled(text: str, params: Mapping[str, Any]) -> str:
    """A path of ``dvc.yaml`` with the parameters it names in their places."""

    def value(match: re.Match[str]) -> str:
        found: Any = params
        for part in match.group(1).split("."):
            found = found[part]
        return str(found)

    return _VARIABLE.sub(value, text)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _git(project: Path, *arguments: str) -> str | None:
    """Return what a git command prints; None without git or a repository."""
    try:
        return git(project, *arguments, seconds=60).strip()
    except LineageError:
        return None


def _uncommitted(project: Path) -> list[str] | None:
    """Tracked files that were changed and not committed, but what DVC itself rewrites in a run."""
    said = _git(
        project,
        "diff",
        "HEAD",
        "--name-only",
        "--",
        ".",
        f":!{LOCK}",
        f":(exclude,glob)*/{LOCK}",
        ":!metrics",
        ":!plots",
    )
    return None if said is None else said.splitlines()


def processor() -> str:
    """Return the processor's name, family and model, where known: one name may stand for several models."""
    try:
        lines = _read(Path("/proc/cpuinfo")).partition("\n\n")[0].splitlines()  # of the first one
    except OSError:  # no Linux
        lines = []
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    name = found.get("model name") or platform.processor() or platform.machine()
    kind = [f"{word} {found[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in found]
    return f"{name} ({', '.join(kind)})" if kind else name


def _device() -> str:
    """The GPU that torch worked on, with its driver's CUDA; ``cpu`` where it used none, or was not there."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return "cpu"
    return f"{torch.cuda.get_device_name()} (CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()})"
