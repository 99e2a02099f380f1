"""Check that ``dvc.lock`` belongs to the present code, parameters and commands: without data, without a run.

This check reads DVC's status, and compares the lock with itself: ``dvc repro --dry --allow-missing`` ends with 0 also
where a stage would run, where an output was added, and where hashes were edited by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.doctor.findings import Finding, failure, good, problem, warning
from pipeline.doctor.machine import check_lists
from pipeline.doctor.project import check_hidden
from pipeline.lineage.evidence import KnownFacts, in_words, known_facts
from pipeline.lineage.facts import stage_paths
from pipeline.lineage.lock import Entry, Lock, lock_here, tracked_hashes
from pipeline.lineage.repository import git_output
from pipeline.pipelines import LEDGER, PARAMS, Pipeline, folder_of, full_name, parameter, pipelines, run_dvc
from sightword.errors import SightwordError
from sightword.io import yaml_reader
from sightword.io.files import read_text
from sightword.messages import flat

Values = Mapping[str, Any]
_too_much = partial(warning, todo="Nothing runs again for it; remove it from dvc.lock, or let the next run do so.")


def check_lock(project: Path) -> list[Finding]:
    """Check a project's lock against code, parameters and ``dvc.yaml``, and against the known facts of runs."""
    try:
        every = pipelines(project)
        waiting = [pipeline.folder for pipeline in every if pipeline.hidden and not pipeline.has_run]
        stages = {name: run for one in every if one.folder not in waiting for name, run in one.runs().items()}
        params: dict[str, Any] = {}
        for name in (pipeline.params for pipeline in every):
            params[name] = yaml_reader.parse(read_text(project / name), name)
            if not isinstance(params[name], dict):
                return [problem(f"{name} has no sections", f"`git checkout -- {name}`.")]
        lock, status = lock_here(project), json.loads(run_dvc("status", "--json", folder=project))
        reasons = stale(status, stages, params, lock, _tracked(project))
    except SightwordError as error:
        return [failure(error, "Fix what it names.")]
    findings = [replace(one, what=f"{name}: {one.what}") for name, many in reasons.items() for one in many]
    findings.sort(key=lambda finding: finding.state == "problem")
    doubts = [*check_lists(project), *check_hidden(every), *_doubts(known_facts(project), lock)]
    if findings and findings[-1].state == "problem":
        todo = "Where the data is: `dvc repro` and `dvc push`, then commit dvc.lock, metrics and plots."
        findings[-1] = replace(findings[-1], todo=todo)
    elif all(finding.state != "problem" for finding in doubts):
        stages_in = f"all {len(lock.entries)} stages" + (f"; not run yet: {', '.join(waiting)}" if waiting else "")
        findings.append(good(f"dvc.lock belongs to the code, the parameters and the commands of {stages_in}"))
    return [*doubts, *findings]


def _tracked(project: Path) -> dict[str, str]:
    """Return the hashes in the .dvc files that git has or would take."""
    output = git_output(project, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.dvc") or ""
    names = [name for name in output.split("\0") if (project / name).is_file()]
    return {path: md5 for name in names for path, md5 in tracked_hashes(read_text(project / name), name).items()}


def stale(
    status: Values, stages: Values, params: Values, lock: Lock, tracked: Mapping[str, str]
) -> dict[str, list[Finding]]:
    """Return by stage why it does not belong to its entry in the lock of all pipelines.

    Problems are where the stage would run again, warnings where the lock only names too much.

    Args:
        status: the values of ``dvc status --json``.
        stages: the stages of all pipelines, as in ``dvc.yaml``, with one entry for each item of a matrix.
        params: the sections of each ``params.yaml`` by its path; the paths in ``dvc.yaml`` may name their values.
        lock: the entries.
        tracked: the hash of each path that is tracked by a ``.dvc`` file.
    """
    findings: dict[str, list[Finding]] = {}
    for name, stage in stages.items():
        if entry := lock.entries.get(name):
            reasons = [*_against_hashes(entry, lock, tracked), *_of_status(status.get(name, ()), entry, lock, params)]
            section = params[Pipeline(Path(), folder_of(name)).params]
            findings[name] = [*_against_pipeline(entry, stage, section), *map(problem, dict.fromkeys(reasons))]
        else:
            findings[name] = [problem("dvc.lock has no entry: the stage never ran, or its entry was lost")]
    for name in sorted(lock.entries.keys() - stages.keys()):
        findings[name] = [_too_much("this stage stands in dvc.lock, but not in dvc.yaml")]
    return {name: reasons for name, reasons in findings.items() if reasons}


def _doubts(known: KnownFacts, lock: Lock) -> list[Finding]:
    """Return what the facts of runs have against the lock: problems for proofs, a warning for unseen runs."""
    if not known:
        return [good("no facts of runs are here, so it is not known whether the entries of dvc.lock ever ran")]
    weighed = {name: known.weigh(entry) for name, entry in lock.entries.items()}
    findings = [
        problem(
            f"{name}: {in_words(one.verdict, one.why)}",
            f"If an output, an input or dvc.lock was edited, merged or saved by `dvc commit`: `dvc repro --force "
            f"--single-item {name}`. If it ran elsewhere: `sightword audit --verify {name}` shows whether it gives "
            "these bytes again.",
        )
        for name, one in weighed.items()
        if one.doubted
    ]
    if unseen := {name: one.why for name, one in weighed.items() if one.verdict == "never seen to run"}:
        named = "; ".join(f"{name} ({why})" if why else name for name, why in unseen.items())
        todo = "`sightword audit --verify STAGE` shows whether a stage gives the bytes of dvc.lock."
        findings.append(warning(f"never seen to run: {named}", todo))
    return findings


def _of_status(changes: Sequence[Any], entry: Entry, lock: Lock, params: Values) -> Iterator[str]:
    """Yield the changes in DVC's status; absent data is no change."""
    for change in changes:
        if isinstance(change, str):
            if change != "always changed":
                yield "command: differs from the one in dvc.lock" if change == "changed command" else change
            continue
        for path, state in (change.get("changed deps") or {}).items():
            if Path(path).name == LEDGER:
                continue  # it grows by each scoring, and is empty in a clone
            made, data = lock.made(path), path.startswith("data/")
            if isinstance(state, Mapping):
                yield from _of_params(path, state, entry.params.get(path, {}), params.get(path, {}))
            elif path.endswith(PARAMS):
                yield f"parameters: {path} is {state}"
            elif state != "deleted":
                yield f"{'output of an earlier stage' if made else 'data' if data else 'code'}: {path} is {state}"
            elif not made and not data:
                yield f"code: {path} is not there"
        for path, state in (change.get("changed outs") or {}).items():
            if state not in ("deleted", "not in cache"):
                yield f"result: {path} is {state}"


def _of_params(path: str, state: Mapping[str, str], locked: Values, params: Values) -> Iterator[str]:
    """Yield the changed parameters of the sections, or of the keys, that DVC names."""
    for name, word in state.items():
        before, now = locked.get(name), parameter(params, name, None)
        if not path.endswith(PARAMS) or before is None or now is None:
            yield f"parameters: {name} in {path} is {word}"
            continue
        before, now = flat({name: before}), flat({name: now})
        for key in {**before, **now}:
            was, present = before.get(key, "absent"), now.get(key, "gone")
            if was != present:
                yield f"parameters: {full_name(path, key)} is {present!r}, in dvc.lock {was!r}"


def _against_pipeline(entry: Entry, stage: Mapping[str, Any], params: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield outputs and dependencies that stand in only one of the two files; DVC ignores extra ones in the lock."""
    try:
        deps, outs = stage_paths(stage, params)
    except (KeyError, TypeError):
        return  # a path made of more than values of params.yaml
    for word, wanted, locked in (("output", outs, entry.outs), ("dependency", deps, entry.deps)):
        have = {item.path for item in locked}
        for path in sorted(set(wanted) - have):
            yield problem(f"{word}: {path} stands in dvc.yaml, but not in dvc.lock")
        for path in sorted(have - set(wanted)):
            yield _too_much(f"{word}: {path} stands in dvc.lock, but not in dvc.yaml")


def _against_hashes(entry: Entry, lock: Lock, tracked: Mapping[str, str]) -> Iterator[str]:
    """Yield inputs whose hash differs from the stage that wrote them, or the .dvc file that tracks them."""
    for dep in entry.deps:
        source = lock.producer(dep.path)
        if source and any(out.path == dep.path and out.md5 != dep.md5 for out in source.outs):
            yield f"lock: it read another {dep.path} than the stage {source.name} wrote"
        if tracked.get(dep.path, dep.md5) != dep.md5:
            yield f"data: it read another {dep.path} than {dep.path}.dvc tracks"
