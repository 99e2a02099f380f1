"""Check the project's files, and whether git has all that makes a result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Note, good, message, problem, warning
from pipeline.lineage.cache import Cache
from pipeline.lineage.lock import Lock
from pipeline.lineage.locks import lock_here
from pipeline.lineage.repository import git
from pipeline.params import params_file
from pipeline.pipelines import DVC_YAML, LOCK, PARAMS, Pipeline, by_stage, pipelines
from sightword.errors import LineageError, SightwordError
from sightword.text import and_more

TRACED = (
    *(
        PARAMS,
        DVC_YAML,
        LOCK,
        *(f":(glob)*/{name}" for name in (PARAMS, DVC_YAML, LOCK)),
        "sightword",
        "pipeline",
        "stages",
        "pyproject.toml",
        "constraints.txt",
    ),
    *(".dvc/config", "data/raw"),
)
"""The files that make a result."""


def check_files(context: Context) -> Iterator[Note]:
    """Check that ``params.yaml``, ``dvc.yaml`` and ``dvc.lock`` can be read, and that no metric was edited."""
    assert context.project is not None
    every = pipelines(context.project)
    found = [note for pipeline in every for note in _check_pipeline(pipeline)]
    yield from found
    if all(note.state == "ok" for note in found):
        try:
            by_stage(context.project)
        except SightwordError as error:
            yield problem(str(error), "Rename one of the two stages.")
    if not any((context.project / pipeline.lock).exists() for pipeline in every):
        yield warning("there is no dvc.lock: nothing has run here yet", "`dvc repro`, then commit dvc.lock.")
        return
    try:
        lock = lock_here(context.project)
    except SightwordError as error:
        yield problem(message(error), error.todo or "Restore it: `git checkout -- dvc.lock`.")
    else:
        yield good(f"dvc.lock: {len(lock.entries)} stages (`make check-lock` checks whether it fits the code)")
        yield from _check_metrics(context.project, lock)


def _check_pipeline(pipeline: Pipeline) -> Iterator[Note]:
    try:
        yield good(f"{pipeline.dvc_yaml}: {len(pipeline.stages)} stages")
    except SightwordError as error:
        yield problem(message(error), f"Fix the file, or restore it: `git checkout -- {pipeline.dvc_yaml}`.")
        return
    try:
        params_file.load(pipeline.project / pipeline.params)
        yield good(f"{pipeline.params}: all sections are right")
    except SightwordError as error:
        text = str(error).removesuffix(error.todo or "").rstrip(". \n")
        yield problem(text, "Fix the file, or write a new one: `sightword recipe NAME`.")


def _check_metrics(project: Path, lock: Lock) -> Iterator[Note]:
    """Check the metrics against the lock: in git they can be edited and committed like any text."""
    edited = []
    for entry in lock.entries.values():
        for out in entry.outs:
            path = project / out.path
            if path.suffix == ".json" and path.is_file() and Cache(project).edited(path.read_bytes(), entry, out.path):
                edited.append(out.path)
    if edited:
        yield warning(
            f"edited: {and_more(edited, 5)} does not have the bytes that its stage wrote",
            "`dvc repro` writes it again; `sightword audit --history FILE:KEY` shows the commit of the edit.",
        )


def check_git(context: Context) -> Iterator[Note]:
    """Check that all that makes a result is committed, and that the commits are here."""
    assert context.project is not None
    project = context.project
    try:
        git(project, "rev-parse", "--is-inside-work-tree")
    except LineageError as error:
        if error.what.startswith("git cannot be run"):
            yield warning("there is no git on PATH: results cannot be traced", "Install git.")
        elif "dubious ownership" in error.what:
            yield problem(
                "git refuses to work in another user's folder, and DVC with it",
                f"If you trust it: `git config --global --add safe.directory {project}`.",
            )
        else:
            yield warning("not a git repository: results cannot be traced", "Work in a clone, or `git init`.")
        return
    if git_output(project, "rev-parse", "--verify", "-q", "HEAD") is None:
        yield warning("git has no commit yet: results cannot be traced", "Commit the project.")
        return
    if (git_output(project, "rev-parse", "--is-shallow-repository") or "").strip() == "true":
        yield warning("this clone is shallow: earlier results cannot be traced", "`git fetch --unshallow`.")
    if git_output(project, "symbolic-ref", "-q", "HEAD") is None:
        yield warning(
            "detached HEAD: commits made now belong to no branch and are easily lost", "`git switch -c NAME`."
        )
    yield from _check_changes(project)
    if (git_output(project, "config", "core.autocrlf") or "").strip() == "true":
        yield warning(
            "git changes line ends here (core.autocrlf): files get other hashes than in dvc.lock, and all stages run",
            "`git config core.autocrlf false`, then check the files out again.",
        )


def _check_changes(project: Path) -> Iterator[Note]:
    output = git_output(project, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *TRACED)
    if output is None:
        yield problem("git cannot list changes", "Look at the message of `git status`.")
        return
    unmerged, changed = [], []
    for item in filter(None, output.split("\0")):
        mark, path = item[:2], item[3:]
        is_code = not path.startswith("data/") or path.endswith(".dvc")
        if "U" in mark or mark in ("AA", "DD"):
            unmerged.append(path)
        elif mark != "??" or is_code:
            changed.append(path)
    if unmerged:
        yield problem(
            f"a merge is not finished: {and_more(unmerged, 5)}", "Resolve the conflicts, then `git add` the files."
        )
    if changed:
        yield warning(
            f"not committed, so a result made now could not be traced: {and_more(changed, 5)}",
            "Commit before runs whose numbers you keep.",
        )
    if not unmerged and not changed:
        yield good("code, parameters and lock are committed")


def git_output(project: Path, *arguments: str) -> str | None:
    """Return git's output; None where git fails or is missing."""
    try:
        return git(project, *arguments)
    except LineageError:
        return None
