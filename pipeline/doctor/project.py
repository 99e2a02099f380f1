"""Check the project: its files, git, the encoders that it names, DVC's cache and remote."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from pipeline import systems
from pipeline.doctor import machine
from pipeline.doctor.findings import SECONDS, Check, Context, Finding, advice, failure, good, problem, tried, warning
from pipeline.lineage.facts import OUTS, listed
from pipeline.lineage.lock import CODE, lock_here, within
from pipeline.lineage.repository import git, git_output
from pipeline.params import params_file
from pipeline.pipelines import DVC_YAML, LOCK, PARAMS, Pipeline, by_entry, pipelines, project_of
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
_HINTS = {
    "MissingDeps": "Install the package for that kind of remote, such as `pip install 'dvc[ssh]'` or `'dvc[s3]'`.",
    "Credential": "Give DVC your credentials: `dvc remote modify --local NAME ...`, or set up those of your cloud.",
    "Permission": "Ask for access, or give DVC other credentials: `dvc remote modify --local NAME ...`.",
    "": "Check the address (`dvc remote list`) and the network or VPN.",
}
"""Advice, by a part of the error's name."""


def checks(folder: Path) -> list[Check]:
    """Return all checks of a folder's project, in the order of the report; the systems declare those of inputs."""
    return [
        Check("python", machine.check_python),
        Check("packages", machine.check_packages),
        Check("torch", machine.check_torch),
        Check("device", machine.check_devices, slow=True),
        Check("settings", machine.check_settings),
        Check("files", check_files, needs_project=True),
        Check("git", check_git, needs_project=True),
        *(check for system in pipelines(project_of(folder)) for check in systems.declared(system, "CHECKS", ())),
        Check("encoders", check_encoders, needs_project=True),
        Check("cache", check_cache, needs_project=True),
        Check("remote", check_remote, needs_project=True),
        Check("store", machine.check_store, slow=True),
        Check("disk", machine.check_disk),
    ]


def check_files(context: Context) -> Iterator[Finding]:
    """Check that ``params.yaml``, ``dvc.yaml`` and ``dvc.lock`` can be read."""
    every = pipelines(context.root)
    for pipeline in every:
        yield from _check_pipeline(pipeline)
    yield from check_hidden(every)
    yield from check_names(context.root)
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


def check_names(project: Path) -> Iterator[Finding]:
    """Check that no file of the project is loaded in place of a module: a stage looks in its own folder first."""
    elsewhere = [one for one in sys.path if one and Path(one).resolve() != project.resolve()]
    files = {path.stem: path.name for path in sorted(project.glob("*.py"))}
    taken = [file for name, file in files.items()
             if name in sys.stdlib_module_names or PathFinder.find_spec(name, elsewhere)]  # fmt: skip
    if taken:
        yield warning(f"stages would load {and_more(taken, 5)} in place of a package of that name", "Rename the file.")


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
        todo = "Work in a clone of your own, with a commit and git: `git add -A . && git commit -m Start`."
        yield report(f"results cannot be traced: {error.what}", todo)
        return
    for command, bad, what, todo in (
        ("rev-parse --is-shallow-repository", "true", "this clone is shallow: earlier results cannot be traced",
         "`git fetch --unshallow`."),
        ("symbolic-ref -q HEAD", None, "detached HEAD: commits made now belong to no branch and are easily lost",
         "`git switch -c NAME`."),
        ("config core.autocrlf", "true", "git changes line ends here (core.autocrlf), and files get other hashes",
         "`git config core.autocrlf false`, then check the files out again."),
    ):  # fmt: skip
        if git_output(project, *command.split()) == bad:
            yield warning(what, todo)
    output = git(project, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *TRACED)
    items = {item[3:]: item[:2] for item in output.split("\0") if item}
    unmerged = [path for path, mark in items.items() if "U" in mark or mark in ("AA", "DD")]
    data = [path for path in items if path.startswith("data/") and not path.endswith(".dvc")]
    changed = [path for path, mark in items.items() if path not in unmerged and (mark != "??" or path not in data)]
    if unmerged:
        todo = "Resolve the conflicts, then `git add` the files."
        yield problem(f"a merge is not finished: {and_more(unmerged, 5)}", todo)
    if changed:
        what = f"not committed, so a result made now could not be traced: {and_more(changed, 5)}"
        yield warning(what, "Commit before runs whose numbers you keep.")
    if not unmerged and not changed:
        yield good("code, parameters and lock are committed")


def check_encoders(context: Context) -> Iterator[Finding]:
    """Check the saved encoders that parameters name as the stages read them, but for weights and vocabulary."""
    named: dict[str, list[str]] = {}
    for system, sections in context.sections.items():
        values = {name: settings.model_dump() for name, settings in sections.items()}
        for parameter, path in systems.encoders(system, values):
            named.setdefault(path, []).append(system.full_name(parameter))
    for path, parameters in named.items():
        parameter, place = ", ".join(parameters), context.root / path
        if place.exists():
            yield tried(context, parameter, path, partial(_read_encoder, place, quick=context.quick))
        else:
            yield problem(f"{parameter}: {path} does not exist", advice(context, path))
    if not named:
        yield good("no parameter names an encoder of another run")


def _read_encoder(place: Path, *, quick: bool) -> None:
    from sightword.encoder.pretrained import ENCODER, require_encoder

    require_encoder(place)
    if not quick:  # large files are read whole
        ENCODER.read(place)


def check_cache(context: Context) -> Iterator[Finding]:
    """Check that DVC works here, and that a shared cache has the permissions it needs."""
    facts = context.ask("dvc")
    if "error" in facts:
        todo = "Fix .dvc/config, or begin with `dvc init`."
        if "Errno" in facts["error"]:
            todo = "Ask for the right to write there; for a folder outside the project set DVC_SITE_CACHE_DIR to yours."
        yield problem(f"DVC cannot work here: {facts['error']}", todo)
    elif "cache" in facts:
        cache = Path(facts["cache"])
        mode = cache.stat().st_mode if cache.is_dir() and facts["shared"] else -1
        if mode & stat.S_IWGRP and mode & stat.S_ISGID:
            yield good(f"DVC works; its cache is {cache}")
        else:
            todo = f"Once, by its owner: `chmod -R g+w {cache}` and `find {cache} -type d -exec chmod g+s {{}} +`."
            yield warning(f"cache.shared is group, but {cache} lacks the group's write or setgid bit", todo)
    elif facts:
        yield problem(f"DVC does not answer ({facts.get('failed', 'it takes too long')})", "Try `dvc version`.")


def check_remote(context: Context) -> Iterator[Finding]:
    """Check the default remote and its contents."""
    facts = context.ask("dvc")
    if "remotes" not in facts:
        return  # the check of the cache reports the error
    name, remotes = facts["remote"], facts["remotes"]
    if not remotes and not any(pipeline.has_run for pipeline in pipelines(context.root)):
        yield good("no remote, and no results yet")
    elif not remotes:
        yield warning("no remote: results stay on this machine", "`dvc remote add -d NAME ADDRESS`, then `dvc push`.")
    elif name not in remotes:
        what = f"the default remote ({name}) is none of the configured ones ({', '.join(remotes)})"
        yield (warning if name is None else problem)(what, "`dvc remote default NAME`.")
    elif not context.quick:
        yield from _check_contents(f"the remote {name} ({remotes[name]})", facts)


def _check_contents(remote: str, facts: dict[str, Any]) -> Iterator[Finding]:
    closed = facts.get("closed", [])
    for owner in dict.fromkeys(item["owner"] for item in closed):
        paths = [Path(item["path"]) for item in closed if item["owner"] == owner]
        readers, folder = facts["readers"], facts["folder"]
        yield warning(
            f"in the remote, others cannot read what {owner} pushed, and would compute it again: {and_more(paths, 2)}",
            f"{owner} runs `find {folder} -user {owner} -exec chmod {readers}+rX {{}} +` once, and "
            f"`umask {'022' if 'o' in readers else '007'}` before each `dvc push`.",
        )
    if not facts.get("writable", True):
        yield problem(f"{remote} cannot be written to", "Ask for permission there, or use another folder.")
    elif not facts.get("exists", True):
        yield warning(f"{remote} is a folder that does not exist", "Mount it, or let `dvc push` create it.")
    elif "answers" not in facts:
        error = facts.get("remote_error", "")
        why = error or facts.get("failed") or f"no answer within {SECONDS['dvc']:.0f} s"
        kind = next(part for part in _HINTS if part.lower() in error.lower())
        yield problem(f"{remote} cannot be reached: {why}", _HINTS[kind])
    elif lacks := facts["lacks"]:
        gone = [path for path in lacks if path in facts["gone"]]
        before = f"; before that, `dvc repro` (or raw data in its place) for {and_more(gone, 5)}, which the cache lacks"
        what = f"{remote} lacks {and_more(lacks, 5)}: another clone would not get them"
        yield warning(what, f"`dvc push`{before if gone else ''}.")
    else:
        yield good(f"{remote} answers, and has all outputs of dvc.lock")
