"""Check DVC, its cache and its remote: what others need to find this project's results."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.doctor.context import DVC_SECONDS, Context
from pipeline.doctor.findings import Finding, good, problem, warning
from pipeline.pipelines import pipelines
from sightword.messages import and_more

_HINTS = {
    "MissingDeps": "Install the package for that kind of remote, such as `pip install 'dvc[ssh]'` or `'dvc[s3]'`.",
    "Credential": "Give DVC your credentials: `dvc remote modify --local NAME ...`, or set up those of your cloud.",
    "Permission": "Ask for access, or give DVC other credentials: `dvc remote modify --local NAME ...`.",
    "NotFound": "Fix the address (`dvc remote modify NAME url ...`), or create the bucket.",
    "": "Check the address (`dvc remote list`) and the network or VPN.",
}
"""Advice, by a part of the error's name."""


def check_cache(context: Context) -> Iterator[Finding]:
    """Check that DVC works here, and that a shared cache has the permissions it needs."""
    facts = context.ask("dvc")
    if "error" in facts:
        todo = "Fix .dvc/config, or begin with `dvc init`."
        if "Errno" in facts["error"]:
            todo = "Ask for the right to write there; for a folder outside the project set DVC_SITE_CACHE_DIR to yours."
        yield problem(f"DVC cannot work here: {facts['error']}", todo)
    elif "cache" in facts:
        yield _check_sharing(context.root, Path(facts["cache"]), shared=facts["shared"])
    elif facts:
        yield problem(f"DVC does not answer ({facts.get('failed', 'it takes too long')})", "Try `dvc version`.")


def _check_sharing(project: Path, cache: Path, *, shared: bool) -> Finding:
    if not cache.is_dir():
        return good(f"the cache is still empty: {cache}")
    status = cache.stat()
    bits = {"write": stat.S_IWGRP, "setgid": stat.S_ISGID}
    if missing := [name for name, bit in bits.items() if shared and not status.st_mode & bit]:
        todo = f"Once, by its owner: `chmod -R g+w {cache}` and `find {cache} -type d -exec chmod g+s {{}} +`."
        return warning(f"cache.shared is group, but {cache} lacks the group's {' and '.join(missing)} bit", todo)
    if shared and os.geteuid() != 0 and status.st_gid not in {os.getegid(), *os.getgroups()}:
        return problem(f"you are not in the group of {cache}", "Ask to be added, then log in again.")
    if not shared and not any(cache.is_relative_to(place) for place in (project, os.environ.get("HOME", cache))):
        what = f"the cache {cache} lies outside the project, and others cannot use your files there"
        return warning(what, "If a lab shares it: `dvc config cache.shared group`.")
    return good(f"DVC works; its cache is {cache}")


def check_remote(context: Context) -> Iterator[Finding]:
    """Check the default remote and its contents, and look for credentials in git."""
    facts = context.ask("dvc")
    if "remotes" not in facts:
        return  # the check of the cache reports the error
    move = "Move it to .dvc/config.local (`dvc remote modify --local ...`), remove it from git, and have it replaced."
    for name in facts["committed_secrets"]:
        yield problem(f".dvc/config holds a credential ({name}), and goes to git", move)
    name, remotes = facts["remote"], facts["remotes"]
    if not remotes and not any(pipeline.has_run for pipeline in pipelines(context.root)):
        yield good("no remote, and no results yet")
    elif not remotes:
        yield warning("no remote: results stay on this machine", "`dvc remote add -d NAME ADDRESS`, then `dvc push`.")
    elif name is None:
        yield warning(f"none of the remotes is the default ({', '.join(remotes)})", "`dvc remote default NAME`.")
    elif name not in remotes:
        yield problem(f"the default remote {name} is not configured", "`dvc remote list` shows the configured ones.")
    elif not context.quick:
        yield from _check_contents(f"the remote {name} ({remotes[name]})", facts)


def _check_contents(remote: str, facts: dict[str, Any]) -> Iterator[Finding]:
    closed = facts.get("closed", [])
    for owner in dict.fromkeys(one["owner"] for one in closed):
        paths = [Path(one["path"]) for one in closed if one["owner"] == owner]
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
        why = error or facts.get("failed") or f"no answer within {DVC_SECONDS:.0f} s"
        kind = next(part for part in _HINTS if part.lower() in error.lower())
        yield problem(f"{remote} cannot be reached: {why}", _HINTS[kind])
    elif lacks := facts["lacks"]:
        gone = [path for path in lacks if path in facts["gone"]]
        before = f"; before that, `dvc repro` (or raw data in its place) for {and_more(gone, 5)}, which the cache lacks"
        what = f"{remote} lacks {and_more(lacks, 5)}: another clone would not get them"
        yield warning(what, f"`dvc push`{before if gone else ''}.")
    else:
        yield good(f"{remote} answers, and has all outputs of dvc.lock")
