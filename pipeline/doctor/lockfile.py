"""Whether ``dvc.lock`` belongs to the code, the parameters and the commands of now: without data, without running.

``dvc repro --dry --allow-missing`` looks like this check and is none: it ends with 0 where a stage would run whose
inputs are there, where an output was added, and where hashes were edited by hand; and with "No such file" where
a stage would run whose inputs are not. Here DVC is asked for its status, and the lock is compared with itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.doctor.findings import Note, good, problem, warning
from pipeline.lineage.evidence import FETCH, Evidence
from pipeline.lineage.lock import Lock, within

Reasons = dict[str, list[Note]]
"""By stage, in the order of the pipeline."""

_REFERENCE = re.compile(r"\$\{([^}]+)\}")


def stale(
    status: Mapping[str, Any],
    pipeline: Mapping[str, Any],
    params: Mapping[str, Any],
    lock: Lock,
    tracked: Mapping[str, str],
) -> Reasons:
    """Why stages do not belong to their entries in the lock.

    Args:
        status: what ``dvc status --json`` says.
        pipeline: ``dvc.yaml``.
        params: ``params.yaml``, whose values its paths may name.
        lock: ``dvc.lock``.
        tracked: the hash of each path that is tracked by a ``.dvc`` file.

    Returns:
        By stage the reasons: problems where it would run again, warnings where the lock only says too much;
        empty where all is consistent.
    """
    stages = pipeline.get("stages") or {}
    made = {path for stage in stages.values() for path in paths(stage, ("outs", "metrics", "plots"), params)} - {None}
    found: Reasons = {name: [] for name in stages}
    for name in stages:
        if "foreach" in stages[name] or "matrix" in stages[name]:
            continue  # DVC gives these other names, and its status covers them
        if name not in lock.entries:
            found[name].append(_again("dvc.lock has no entry of it: it was never run, or its entry was lost"))
            continue
        found[name] += _against_pipeline(name, stages[name], params, lock)
        found[name] += [_again(reason) for reason in _against_hashes(name, lock, tracked)]
    for name in lock.entries:
        if name.partition("@")[0] not in stages:
            found[name] = [_too_much("dvc.lock has this stage, dvc.yaml has not")]
    for name, changes in status.items():
        if not name.endswith(".dvc") and name.partition("@")[0] in stages and name in lock.entries:
            found.setdefault(name, []).extend(map(_again, _of_status(changes, lock, name, params, made)))
    return {name: list(dict.fromkeys(reasons)) for name, reasons in found.items() if reasons}


def doubts(weighed: Mapping[str, Evidence], *, no_records: bool) -> list[Note]:
    """What the records of runs have against the entries of the lock.

    Args:
        weighed: what they say of each stage.
        no_records: whether there are none here, as in a fresh clone: then nothing follows.

    Returns:
        Problems where a record contradicts, a warning where there are records of other runs only.
    """
    if no_records:
        return [good(f"no run was recorded here, so nothing tells whether the entries of dvc.lock ever ran; {FETCH}")]
    found = [
        problem(
            f"{name}: contradicted: {one.why}",
            f"If dvc.lock was merged or edited: `dvc repro --force --single-item {name}`. If another machine made the "
            f"entry: `sightword audit --verify {name}` tells whether it gives these bytes again.",
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
        reason, "Nothing runs again for it; take it out of dvc.lock by hand, or let the stage's next run do it."
    )


def _of_status(
    changes: Sequence[Any], lock: Lock, name: str, params: Mapping[str, Any], made: set[str]
) -> Iterator[str]:
    """What DVC says, without what only means that data is not here."""
    entry = lock.entries[name]
    for change in changes:
        if isinstance(change, str):
            if change == "changed command":
                yield "command: it is another one now"
            elif change != "always changed":
                yield change
            continue
        for path, state in (change.get("changed deps") or {}).items():
            if isinstance(state, Mapping):  # a parameter file
                yield from _of_params(path, state, entry.params.get(path, {}), params)
            elif path.endswith("params.yaml"):
                yield f"parameters: {path} is {state}"
            elif state != "deleted":
                what = (
                    "output of an earlier stage"
                    if _is_made(path, made)
                    else "data"
                    if path.startswith("data/")
                    else "code"
                )
                yield f"{what}: {path} is {state}"
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
    """Which parameters of a section changed: DVC only names the section."""
    for section, word in state.items():
        before, now = locked.get(section), params.get(section)
        if path != "params.yaml" or not isinstance(before, Mapping) or not isinstance(now, Mapping):
            yield f"parameters: {section} in {path} is {word}"
            continue
        keys = [key for key in {**before, **now} if before.get(key) != now.get(key) or (key in before) != (key in now)]
        for key in keys:
            yield f"parameters: {section}.{key} is {now.get(key, 'gone')!r}, in dvc.lock {before.get(key, 'absent')!r}"


def _against_pipeline(name: str, stage: Mapping[str, Any], params: Mapping[str, Any], lock: Lock) -> Iterator[Note]:
    """Outputs and dependencies that only one of the two files has. DVC does not mind those that are too many."""
    entry = lock.entries[name]
    for word, kinds, locked in (
        ("output", ("outs", "metrics", "plots"), entry.outs),
        ("dependency", ("deps",), entry.deps),
    ):
        wanted, have = paths(stage, kinds, params), {item.path for item in locked}
        if None in wanted:
            continue  # a path that is put together in another way than from params.yaml
        yield from (_again(f"{word}: {path} stands in dvc.yaml, but not in dvc.lock") for path in sorted(wanted - have))
        yield from (
            _too_much(f"{word}: {path} stands in dvc.lock, but not in dvc.yaml") for path in sorted(have - wanted)
        )


def _against_hashes(name: str, lock: Lock, tracked: Mapping[str, str]) -> Iterator[str]:
    """A stage read what another one wrote, or what a .dvc file tracks: both must tell one hash of it."""
    for dep in lock.entries[name].deps:
        source = lock.producer(dep.path)
        written = {out.path: out.md5 for out in source.outs}.get(dep.path) if source else None
        if source is not None and written is not None and written != dep.md5:
            yield f"lock: it read another {dep.path} than the stage {source.name} wrote"
        if tracked.get(dep.path, dep.md5) != dep.md5:
            yield f"data: it read another {dep.path} than {dep.path}.dvc tracks"


def paths(stage: Mapping[str, Any], kinds: Sequence[str], params: Mapping[str, Any]) -> set[Any]:
    """The paths that a stage names, parameters filled in; None among them for one that cannot be known."""
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
