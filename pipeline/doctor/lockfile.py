"""Check that ``dvc.lock`` belongs to the present code, parameters and commands: without data, without a run.

``dvc repro --dry --allow-missing`` cannot replace this check: it ends with 0 where a stage would run whose
inputs are there, where an output was added, and where hashes were edited by hand; and with "No such file" where
a stage would run whose inputs are missing. This check reads DVC's status, and compares the lock with itself.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.doctor.findings import Note, good, message, problem, warning
from pipeline.doctor.project import git_output
from pipeline.lineage import documents
from pipeline.lineage.cache import Cache
from pipeline.lineage.evidence import FETCH, Evidence, Records
from pipeline.lineage.lock import Lock, tracked_hashes, within
from pipeline.lineage.locks import lock_here
from pipeline.pipelines import PARAMS, by_stage, pipelines
from sightword.errors import SetupError, SightwordError
from sightword.files import read_text
from sightword.text import last_line

Reasons = dict[str, list[Note]]
"""By stage, in the order of the pipeline."""

_REFERENCE = re.compile(r"\$\{([^}]+)\}")


def check_lock(project: Path, facts: Sequence[Path]) -> list[Note]:
    """Check the lock against code, parameters and ``dvc.yaml``, and against the records of runs.

    Args:
        project: the project's folder.
        facts: the folders with facts of runs.
    """
    try:
        stages = {name: pipeline.stages[name] for name, pipeline in by_stage(project).items()}
        params: dict[str, Any] = {}
        for name in (pipeline.params for pipeline in pipelines(project)):
            values = documents.parse(read_text(project / name), name)
            if not isinstance(values, dict):
                return [problem(f"{name} has no sections", f"`git checkout -- {name}`.")]
            params |= values  # sections have the names of stages: no name is in two files
        lock = lock_here(project)
        status = {name.rpartition(":")[2]: changes for name, changes in _status(project).items()}
        reasons = stale(status, {"stages": stages}, params, lock, _tracked(project))
    except SightwordError as error:
        return [problem(message(error), error.todo or "")]
    found = [replace(note, what=f"{name}: {note.what}") for name, notes in reasons.items() for note in notes]
    records = Records(Cache(project), facts, project)
    weighed = {name: records.weigh(entry) for name, entry in lock.entries.items()}
    doubted = doubts(weighed, no_records=records.empty)
    outdated = [note for note in found if note.state == "problem"]
    if outdated:
        todo = "Where the data is: `dvc repro` and `dvc push`, then commit dvc.lock, metrics and plots."
        outdated[-1] = replace(outdated[-1], todo=todo)
        return [*doubted, *(note for note in found if note.state != "problem"), *outdated]
    if any(note.state == "problem" for note in doubted):
        return [*found, *doubted]
    count = len(lock.entries)
    fits = good(f"dvc.lock belongs to the code, the parameters and the commands of all {count} stages")
    return [*found, *doubted, fits]


def _tracked(project: Path) -> dict[str, str]:
    """Return the hashes in the .dvc files that git has or would take."""
    output = git_output(project, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.dvc") or ""
    found: dict[str, str] = {}
    for name in filter(None, output.split("\0")):
        if (project / name).is_file():
            found |= tracked_hashes(read_text(project / name), name)
    return found


def _status(project: Path) -> dict[str, Any]:
    """Return the values of ``dvc status --json``.

    Raises:
        SetupError: DVC fails.
    """
    command = [sys.executable, "-m", "dvc", "status", "--json"]
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    if done.returncode:
        raise SetupError(f"DVC cannot read the project: {last_line(done.stderr)}", todo="Fix what it names.")
    try:
        values = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise SetupError(f"DVC printed no status: {last_line(done.stderr)}", todo="Try `dvc status`.") from None
    return values if isinstance(values, dict) else {}


def stale(
    status: Mapping[str, Any],
    pipeline: Mapping[str, Any],
    params: Mapping[str, Any],
    lock: Lock,
    tracked: Mapping[str, str],
) -> Reasons:
    """Return why stages do not belong to their entries in the lock.

    Args:
        status: the values of ``dvc status --json``.
        pipeline: ``dvc.yaml``, with the stages of all pipelines.
        params: the sections of all ``params.yaml``, whose values the paths in ``dvc.yaml`` may name.
        lock: of all pipelines.
        tracked: the hash of each path that is tracked by a ``.dvc`` file.

    Returns:
        The reasons by stage: problems where the stage would run again, warnings where the lock only names too much;
        empty where all is consistent.
    """
    stages = pipeline.get("stages") or {}
    made = {path for stage in stages.values() for path in paths(stage, ("outs", "metrics", "plots"), params)} - {None}
    found: Reasons = {name: [] for name in stages}
    for name in stages:
        if "foreach" in stages[name] or "matrix" in stages[name]:
            continue  # these entries have other names, and DVC's status covers them
        if name not in lock.entries:
            found[name].append(_again("dvc.lock has no entry: the stage never ran, or its entry was lost"))
            continue
        found[name] += _against_pipeline(name, stages[name], params, lock)
        found[name] += [_again(reason) for reason in _against_hashes(name, lock, tracked)]
    for name in lock.entries:
        if name.partition("@")[0] not in stages:
            found[name] = [_too_much("this stage stands in dvc.lock, but not in dvc.yaml")]
    for name, changes in status.items():
        if not name.endswith(".dvc") and name.partition("@")[0] in stages and name in lock.entries:
            found.setdefault(name, []).extend(map(_again, _of_status(changes, lock, name, params, made)))
    return {name: list(dict.fromkeys(reasons)) for name, reasons in found.items() if reasons}


def doubts(weighed: Mapping[str, Evidence], *, no_records: bool) -> list[Note]:
    """Return what the records of runs have against the entries of the lock.

    Args:
        weighed: the evidence for each stage.
        no_records: whether there are no records here, as in a fresh clone; then nothing follows.

    Returns:
        Problems where a record contradicts, a warning where there are only records of other runs.
    """
    if no_records:
        return [good(f"no run was recorded here, so it is not known whether the entries of dvc.lock ever ran; {FETCH}")]
    found = [
        problem(
            f"{name}: contradicted: {one.why}",
            f"If dvc.lock was merged or edited: `dvc repro --force --single-item {name}`. If another machine made the "
            f"entry: `sightword audit --verify {name}` shows whether it gives these bytes again.",
        )
        for name, one in weighed.items()
        if one.verdict == "contradicted"
    ]
    unseen = {name: one.why for name, one in weighed.items() if one.verdict == "never seen to run"}
    if unseen:
        named = "; ".join(f"{name} ({why})" if why else name for name, why in unseen.items())
        todo = f"If others ran it: {FETCH}. If dvc.lock was merged or edited: `sightword audit --verify STAGE`."
        found.append(warning(f"never seen to run here as dvc.lock says: {named}", todo))
    return found


def _again(reason: str) -> Note:
    return problem(reason, "")


def _too_much(reason: str) -> Note:
    return warning(
        reason, "Nothing runs again for it; remove it from dvc.lock by hand, or let the stage's next run do so."
    )


def _of_status(
    changes: Sequence[Any], lock: Lock, name: str, params: Mapping[str, Any], made: set[str]
) -> Iterator[str]:
    """Yield the changes in DVC's status, without those that only mean that data is not here."""
    entry = lock.entries[name]
    for change in changes:
        if isinstance(change, str):
            if change == "changed command":
                yield "command: differs from the one in dvc.lock"
            elif change != "always changed":
                yield change
            continue
        for path, state in (change.get("changed deps") or {}).items():
            if isinstance(state, Mapping):  # a parameter file
                yield from _of_params(path, state, entry.params.get(path, {}), params)
            elif path.endswith(PARAMS):
                yield f"parameters: {path} is {state}"
            elif state != "deleted":
                kind = "data" if path.startswith("data/") else "code"
                yield f"{'output of an earlier stage' if _is_made(path, made) else kind}: {path} is {state}"
            elif not _is_made(path, made) and not path.startswith("data/"):
                yield f"code: {path} is not there"
        for path, state in (change.get("changed outs") or {}).items():
            if state not in ("deleted", "not in cache"):
                yield f"result: {path} is {state}"


def _is_made(path: str, made: set[str]) -> bool:
    return any(within(path, out) for out in made)


def _of_params(
    path: str, state: Mapping[str, str], locked: Mapping[str, Any], params: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the changed parameters of a section: DVC only names the section."""
    for section, word in state.items():
        before, now = locked.get(section), params.get(section)
        if not path.endswith(PARAMS) or not isinstance(before, Mapping) or not isinstance(now, Mapping):
            yield f"parameters: {section} in {path} is {word}"
            continue
        keys = [key for key in {**before, **now} if before.get(key) != now.get(key) or (key in before) != (key in now)]
        for key in keys:
            yield f"parameters: {section}.{key} is {now.get(key, 'gone')!r}, in dvc.lock {before.get(key, 'absent')!r}"


def _against_pipeline(name: str, stage: Mapping[str, Any], params: Mapping[str, Any], lock: Lock) -> Iterator[Note]:
    """Yield outputs and dependencies that stand in only one of the two files; DVC ignores extra ones in the lock."""
    entry = lock.entries[name]
    for word, kinds, locked in (
        ("output", ("outs", "metrics", "plots"), entry.outs),
        ("dependency", ("deps",), entry.deps),
    ):
        wanted, have = paths(stage, kinds, params), {item.path for item in locked}
        if None in wanted:
            continue  # a path made of more than values of params.yaml
        yield from (_again(f"{word}: {path} stands in dvc.yaml, but not in dvc.lock") for path in sorted(wanted - have))
        yield from (
            _too_much(f"{word}: {path} stands in dvc.lock, but not in dvc.yaml") for path in sorted(have - wanted)
        )


def _against_hashes(name: str, lock: Lock, tracked: Mapping[str, str]) -> Iterator[str]:
    """Yield inputs whose hash is not that of the stage that wrote them, or of the .dvc file that tracks them."""
    for dep in lock.entries[name].deps:
        source = lock.producer(dep.path)
        written = {out.path: out.md5 for out in source.outs}.get(dep.path) if source else None
        if source is not None and written is not None and written != dep.md5:
            yield f"lock: it read another {dep.path} than the stage {source.name} wrote"
        if tracked.get(dep.path, dep.md5) != dep.md5:
            yield f"data: it read another {dep.path} than {dep.path}.dvc tracks"


def paths(stage: Mapping[str, Any], kinds: Sequence[str], params: Mapping[str, Any]) -> set[Any]:
    """Return the paths that a stage names, with parameters filled in; None for a path that is not known."""
    found: set[Any] = set()
    for kind in kinds:
        for item in stage.get(kind) or ():
            path = str(next(iter(item)) if isinstance(item, Mapping) else item)
            found.add(_filled(path, params))
    return found


def _filled(path: str, params: Mapping[str, Any]) -> str | None:
    for name in _REFERENCE.findall(path):
        value: Any = params
        for key in name.strip().split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if not isinstance(value, str | int | float):
            return None
        path = path.replace(f"${{{name}}}", str(value))
    return path.removeprefix("./").rstrip("/")
