"""Check the project's files, and whether git has all that makes a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.doctor.context import Context
from pipeline.doctor.findings import Finding, failure, good, problem, warning
from pipeline.lineage.facts import OUTS, listed
from pipeline.lineage.lock import CODE, lock_here, within
from pipeline.lineage.repository import git
from pipeline.params import params_file
from pipeline.pipelines import DVC_YAML, LOCK, PARAMS, Pipeline, by_entry, pipelines
from sightword.errors import LineageError, SightwordError
from sightword.io import yaml_reader
from sightword.io.files import read_text
from sightword.messages import and_more

_FILES = (PARAMS, DVC_YAML, LOCK)
TRACED = (
    *(*_FILES, *(f":(glob)*/{name}" for name in _FILES), *CODE, "pyproject.toml"),
    *("constraints.txt", ".dvc/config", "data/raw"),
)
"""The files that make a result, as git's pathspecs."""


def check_files(context: Context) -> Iterator[Finding]:
    """Check that ``params.yaml``, ``dvc.yaml`` and ``dvc.lock`` can be read."""
    every = pipelines(context.root)
    for pipeline in every:
        yield from _check_pipeline(pipeline)
    yield from check_hidden(every)
    if not any(pipeline.has_run for pipeline in every):
        yield good("there is no dvc.lock: nothing has run here yet")
        return
    try:
        lock = lock_here(context.root)
    except SightwordError as error:
        yield failure(error, "Restore it: `git checkout -- dvc.lock`.")
    else:
        yield good(f"dvc.lock: {len(lock.entries)} stages (`sightword doctor --lock` checks whether it fits the code)")
        yield from check_leftovers(context.root)


def _check_pipeline(pipeline: Pipeline) -> Iterator[Finding]:
    params, stages = pipeline.project / pipeline.params, None
    try:
        stages = pipeline.stages
        yield good(f"{pipeline.dvc_yaml}: {len(stages)} stages")
    except SightwordError as error:
        yield failure(error, f"Fix the file, or restore it: `git checkout -- {pipeline.dvc_yaml}`.")
    try:
        if stages is None:  # the names of the sections are not known
            yaml_reader.parse(read_text(params), pipeline.params)
        else:
            params_file.load(params)
            yield good(f"{pipeline.params}: all sections are right")
    except SightwordError as error:
        yield failure(error, "Fix the file, or write a new one: `sightword params --recipe NAME`.")


def check_hidden(every: Sequence[Pipeline]) -> Iterator[Finding]:
    """Check that each further pipeline has run, or is hidden from DVC, and not both."""
    for pipeline in every:
        if pipeline.hidden and pipeline.has_run:
            what = f"{pipeline.ignore} hides from DVC a pipeline that has run: {pipeline.lock} is there"
            facts = " runs" if (pipeline.project / "runs").is_dir() else ""
            commit = f"`git add -A {pipeline.folder} metrics{facts} && git commit`"
            yield problem(what, f"`{pipeline.command}` brings back all that it made; then {commit}.")
        elif pipeline.folder and not pipeline.hidden and not pipeline.has_run:
            what = f"{pipeline.dvc_yaml} has no dvc.lock: `dvc checkout` and `dvc pull` fail for its outputs"
            committed = git_output(pipeline.project, "ls-files", "--", pipeline.ignore)
            hide = f"git checkout -- {pipeline.ignore}" if committed else f"echo dvc.yaml > {pipeline.ignore}"
            yield warning(what, f"Run it: `{pipeline.command}`; or hide it from DVC until then: `{hide}`.")


def check_leftovers(project: Path) -> Iterator[Finding]:
    """Check folders that one stage reads whole and others write in: a file of no stage enters the folder's hash."""
    try:
        stages = by_entry(project)
    except SightwordError:
        return  # the check of the pipelines reports the error
    outs = [path for stage in stages.values() for path, _ in listed(stage, OUTS)]
    for folder in dict.fromkeys(path for stage in stages.values() for path, _ in listed(stage, ("deps",))):
        if not any(out.startswith(f"{folder}/") for out in outs):
            continue
        here = [f"{folder}/{path.name}" for path in sorted((project / folder).glob("*"))]
        if left := [path for path in here if not any(within(out, path) for out in outs)]:
            what = f"no stage writes {and_more(left, 5)} any more, and a stage reads {folder} whole"
            yield warning(f"{what}: dvc.lock gets another hash than in a fresh clone", f"`rm -r {' '.join(left)}`")


def check_git(context: Context) -> Iterator[Finding]:
    """Check that all that makes a result is committed, and that the commits are here."""
    project = context.root
    try:
        git(project, "log", "-1", "--format=%H")
    except LineageError as error:
        report = problem if "dubious ownership" in error.what else warning  # DVC refuses such a folder too
        todo = "Work in a clone of your own, with a commit and git."
        if "does not have any commits" in error.what:
            todo = "`git add -A . && git commit -m Start`."
        yield report(f"results cannot be traced: {error.what}", todo)
        return
    for command, bad, what, todo in (
        ("rev-parse --is-shallow-repository", "true\n", "this clone is shallow: earlier results cannot be traced",
         "`git fetch --unshallow`."),
        ("symbolic-ref -q HEAD", None, "detached HEAD: commits made now belong to no branch and are easily lost",
         "`git switch -c NAME`."),
        ("config core.autocrlf", "true\n", "git changes line ends here (core.autocrlf), and files get other hashes",
         "`git config core.autocrlf false`, then check the files out again."),
    ):  # fmt: skip
        if git_output(project, *command.split()) == bad:
            yield warning(what, todo)
    yield from _check_changes(project)


def _check_changes(project: Path) -> Iterator[Finding]:
    output = git(project, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *TRACED)
    items = {item[3:]: item[:2] for item in output.split("\0") if item}
    unmerged = [path for path, mark in items.items() if "U" in mark or mark in ("AA", "DD")]
    data = [path for path in items if path.startswith("data/") and not path.endswith(".dvc")]
    ours = [path for path, mark in items.items() if mark != "??" or path not in data]
    if unmerged:
        todo = "Resolve the conflicts, then `git add` the files."
        yield problem(f"a merge is not finished: {and_more(unmerged, 5)}", todo)
    if changed := [path for path in ours if path not in unmerged]:
        what = f"not committed, so a result made now could not be traced: {and_more(changed, 5)}"
        yield warning(what, "Commit before runs whose numbers you keep.")
    if not unmerged and not changed:
        yield good("code, parameters and lock are committed")


def git_output(project: Path, *arguments: str) -> str | None:
    """Return git's output; None where git fails or is missing."""
    try:
        return git(project, *arguments)
    except LineageError:
        return None
