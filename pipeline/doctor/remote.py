"""Check DVC, its cache and its remote: what others need to find this project's results."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.doctor.context import DVC_SECONDS, Context
from pipeline.doctor.findings import Finding, good, problem, warning
from pipeline.pipelines import DVC_YAML, pipelines
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
        yield _check_answer(f"the remote {name} ({remotes[name]})", facts)
        yield from _check_contents(facts)


def _check_answer(remote: str, facts: dict[str, Any]) -> Finding:
    error = facts.get("remote_error", "")
    if "reached" not in facts:
        why = error or facts.get("failed") or f"no answer within {DVC_SECONDS:.0f} s"
        kind = next(part for part in _HINTS if part.lower() in error.lower())
        return problem(f"{remote} cannot be reached: {why}", _HINTS[kind])
    if facts.get("status") in (401, 403):
        return warning(f"{remote} answers, but wants credentials", _HINTS["Credential"])
    if facts.get("status", 0) >= 500:
        return problem(f"{remote} answers with error {facts['status']}", _HINTS[""])
    if not facts["reached"] or not facts.get("writable", True):
        return problem(f"{remote} cannot be written to", "Ask for permission there, or use another folder.")
    if not facts.get("exists", True):
        return warning(f"{remote} is a folder that does not exist", "Mount it, or let `dvc push` create it.")
    if error:
        return warning(f"{remote} answers, but cannot be listed: {error}", "Try `dvc status --cloud`.")
    return good(f"{remote} answers" + (", and is empty" if facts.get("empty") else ""))


def _check_contents(facts: dict[str, Any]) -> Iterator[Finding]:
    outs, closed = facts.get("outs", []), facts.get("closed", [])
    missing = [out["path"] for out in outs if not out["pushed"]]
    gone = [out for out in outs if not out["pushed"] and not out["cached"]]
    if missing:
        what = f"of dvc.lock, the remote lacks {and_more(missing, 5)}: another clone would not get them"
        yield warning(what, f"`dvc push`{_before(gone)}.")
    elif outs and not closed:
        yield good(f"the remote has all {len(outs)} outputs of dvc.lock")
    runs = facts.get("runs") or {"local": 0, "pushed": 0}
    newest = f"{runs['local']} newest runs in DVC's run-cache"
    if lacking := runs["local"] - runs["pushed"]:
        what = f"of the {newest}, the remote lacks {lacking}: others would compute them again"
        yield warning(what, "`dvc push --run-cache`; others take them with `dvc pull --run-cache`.")
    elif runs["local"] and not closed:
        yield good(f"the remote has the {newest}")
    for owner in dict.fromkeys(one["owner"] for one in closed):
        paths = [Path(one["path"]) for one in closed if one["owner"] == owner]
        readers, folder = facts["readers"], facts["folder"]
        yield warning(
            f"in the remote, others cannot read what {owner} pushed, and would compute it again: {and_more(paths, 2)}",
            f"{owner} runs `find {folder} -user {owner} -exec chmod {readers}+rX {{}} +` once, and "
            f"`umask {'022' if 'o' in readers else '007'}` before each `dvc push`.",
        )


def _before(gone: Sequence[Mapping[str, Any]]) -> str:
    """Return what comes before a push of outputs that are in no cache, by the file that describes them."""
    found = []
    for file in dict.fromkeys(out["file"] for out in gone):
        run = f"`dvc repro{'' if file == DVC_YAML else f' {file}'}`"
        make = f"its data in their place and `dvc commit {file}`" if file.endswith(".dvc") else run
        found.append(f"{make} for {and_more([out['path'] for out in gone if out['file'] == file], 5)}")
    return f"; before that, as the cache lacks them too, {', '.join(found)}" if found else ""
