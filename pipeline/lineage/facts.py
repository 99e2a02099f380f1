"""Facts of a run: versions, machine, device, duration. They explain a number and never enter its hash.

Each run of a stage under DVC leaves one JSON, named by the sha256 of its entry in ``dvc.lock``
(:func:`pipeline.lineage.lock.entry_key`), in the project's ``runs/`` and in the store that a lab shares.
Whoever has the same entry, from a colleague's push or from the run-cache, so finds who made it, and how.
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
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.lineage import documents
from pipeline.lineage.hashing import Ignored, hash_path
from pipeline.lineage.lock import LOCK, entry_key, read_lock, tracked_hashes
from sightword.errors import LineageError
from sightword.files import write_text
from sightword.group_files import write_new
from sightword.machine import Machine

log = logging.getLogger(__name__)

RUNS = "runs"
"""The folder, in a project and in a store."""
SCHEMA = 1
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
            ran = _own_entry(self._stage, self._project)
            key = entry_key(self._stage, **ran)
            facts = self._facts(key, ran, seconds, notes or {})
            text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
            # An experiment's own folder is deleted after it; DVC names the project it belongs to.
            path = Path(os.environ.get("DVC_ROOT") or self._project) / RUNS / f"{key}.json"
            write_text(path, text)
            shared = self._machine.store / RUNS / path.name
            if not shared.exists():  # who made it first stays
                write_new(shared, text.encode())
        except Exception as error:  # noqa: BLE001 - DVC deletes the outputs of a run that fails: hours of work, lost for a note on them
            said = f"{type(error).__name__}: {error}" if not isinstance(error, OSError | LineageError) else error
            log.warning("%s: the facts of this run are not kept (%s)", self._stage, said)
            return None
        return path

    def _facts(self, key: str, ran: Mapping[str, Any], seconds: float, notes: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "stage": self._stage,
            "entry": key,
            "ran": ran,
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


def read_facts(key: str, folders: Sequence[Path]) -> dict[str, Any] | None:
    """The facts of an entry from the first of some folders that has them; None where none has.

    Args:
        key: of the entry.
        folders: such as a project's ``runs/`` and a store's.
    """
    for folder in folders:
        try:
            found = json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            if not isinstance(error, FileNotFoundError):
                log.warning("%s: cannot be read (%s)", folder / f"{key}.json", error)
            continue
        if not isinstance(found, dict) or found.get("entry") != key:
            log.warning("%s: holds facts of another run", folder / f"{key}.json")
        elif found.get("schema") != SCHEMA:
            log.warning("%s: was written by another version of Sightword", folder / f"{key}.json")
        else:
            return found
    return None


def _own_entry(stage: str, project: Path) -> dict[str, Any]:
    """What DVC is about to write of a stage that has just run, as the arguments of :func:`entry_key`."""
    params = documents.parse(_read(project / "params.yaml"), "params.yaml")
    ignored = Ignored(project)
    known = _known(project)

    def hashes(paths: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
        return {path: known.get(path) or hash_path(project / path, ignored).md5 for path in paths}

    try:
        described = documents.parse(_read(project / "dvc.yaml"), "dvc.yaml")["stages"][stage]
        sections = {name: params[name] for name in described.get("params", [])}
        command, (deps, outs) = described["cmd"], stage_paths(described, params)
    except (KeyError, TypeError) as error:
        raise LineageError(f"does not describe the stage {stage} plainly ({error})", where="dvc.yaml") from None
    by_file = {"params.yaml": sections} if sections else {}
    return {
        "command": command if isinstance(command, str) else "\n".join(command),
        "params": by_file,
        "deps": hashes(deps, known),
        "outs": hashes(outs, {}),
    }


def stage_paths(described: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The dependencies and the outputs of a stage of ``dvc.yaml``, parameters in their places.

    Raises:
        KeyError: a parameter it names is not there.
    """

    def paths(kind: str) -> list[str]:
        items = described.get(kind, [])
        return [_filled(next(iter(item)) if isinstance(item, dict) else item, params) for item in items]

    return paths("deps"), [*paths("outs"), *paths("metrics"), *paths("plots")]


def _known(project: Path) -> dict[str, str]:
    """The hashes of other stages' outputs and of data added to DVC, which DVC has just compared."""
    found: dict[str, str] = {}
    lock = project / LOCK
    if lock.is_file():
        for entry in read_lock(_read(lock)).entries.values():
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
    """What a git command says; None where there is no git or no repository."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            ["git", *arguments],  # noqa: S607 - the user's own git
            cwd=project, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _uncommitted(project: Path) -> list[str] | None:
    """Tracked files that were changed and not committed, but what DVC itself rewrites in a run."""
    said = _git(project, "diff", "HEAD", "--name-only", "--", ".", ":!dvc.lock", ":!metrics", ":!plots")
    return None if said is None else said.splitlines()


def processor() -> str:
    """The processor's name, family and model, as far as the system tells them: some names stand for several kinds."""
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
