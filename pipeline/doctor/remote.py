"""Check DVC, its cache and its remote: what others need to find this project's results."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.doctor.context import DVC_SECONDS, Context
from pipeline.doctor.findings import Note, good, problem, warning
from sightword.text import and_more

_HINTS = {
    "MissingDeps": "Install the package for that kind of remote, such as `pip install 'dvc[ssh]'` or `'dvc[s3]'`.",
    "Credential": "Give DVC your credentials: `dvc remote modify --local NAME ...`, or set up those of your cloud.",
    "Permission": "Ask for access, or give DVC other credentials: `dvc remote modify --local NAME ...`.",
    "NotFound": "Fix the address (`dvc remote modify NAME url ...`), or create the bucket.",
    "": "Check the address (`dvc remote list`) and the network or VPN.",
}
"""Advice, by a part of the error's name."""


def check_cache(context: Context) -> Iterator[Note]:
    """Check that DVC works here, and that a shared cache has the permissions it needs."""
    facts = context.ask("dvc")
    if "error" in facts:
        todo = "Fix .dvc/config, or begin with `dvc init`."
        if "Errno" in facts["error"]:
            todo = "Ask for the right to write there; for a folder outside the project set DVC_SITE_CACHE_DIR to yours."
        yield problem(f"DVC cannot work here: {facts['error']}", todo)
    elif "cache" in facts:
        yield from _check_sharing(context, Path(facts["cache"]), shared=facts["shared"])
    elif facts:
        yield problem(f"DVC does not answer ({facts.get('failed', 'it takes too long')})", "Try `dvc version`.")


def _check_sharing(context: Context, cache: Path, *, shared: bool) -> Iterator[Note]:
    if not cache.is_dir():
        yield good(f"the cache is still empty: {cache}")
        return
    status = cache.stat()
    bits = {"write": stat.S_IWGRP, "setgid": stat.S_ISGID}
    missing = [name for name, bit in bits.items() if shared and not status.st_mode & bit]
    if missing:
        yield warning(
            f"cache.shared is group, but {cache} lacks the group's {' and '.join(missing)} bit",
            f"Once, by its owner: `chmod -R g+w {cache}` and `find {cache} -type d -exec chmod g+s {{}} +`.",
        )
    elif shared and os.geteuid() != 0 and status.st_gid not in {os.getegid(), *os.getgroups()}:
        yield problem(f"you are not in the group of {cache}", "Ask to be added, then log in again.")
    elif not shared and not any(
        cache.is_relative_to(place) for place in (context.project or cache, os.environ.get("HOME", cache))
    ):
        yield warning(
            f"the cache {cache} lies outside the project, and others cannot use your files there",
            "If a lab shares it: `dvc config cache.shared group`.",
        )
    else:
        yield good(f"DVC works; its cache is {cache}")


def check_remote(context: Context) -> Iterator[Note]:
    """Check the default remote and its contents, and look for credentials in git."""
    facts = context.ask("dvc")
    if "remotes" not in facts:
        return  # the check of the cache reports the error
    for name in facts["committed_secrets"]:
        yield problem(
            f".dvc/config holds a credential ({name}), and goes to git",
            "Move it to .dvc/config.local (`dvc remote modify --local ...`), remove it from git, and have it replaced.",
        )
    name = facts["remote"]
    if not facts["remotes"]:
        yield warning("no remote: results stay on this machine", "`dvc remote add -d NAME ADDRESS`, then `dvc push`.")
    elif name is None:
        known = ", ".join(facts["remotes"])
        yield warning(f"none of the remotes is the default ({known})", "`dvc remote default NAME`.")
    elif name not in facts["remotes"]:
        yield problem(f"the default remote {name} is not configured", "`dvc remote list` shows the configured ones.")
    elif not context.quick:
        yield from _check_answer(f"{name} ({facts['remotes'][name]})", facts)
        yield from _check_contents(facts)


def _check_answer(remote: str, facts: dict[str, Any]) -> Iterator[Note]:
    if "remote_error" in facts and "reached" not in facts:
        kind = next(part for part in _HINTS if part.lower() in facts["remote_error"].lower())
        yield problem(f"the remote {remote} cannot be reached: {facts['remote_error']}", _HINTS[kind])
    elif "reached" not in facts:
        why = f"it ended with: {facts['failed']}" if "failed" in facts else f"no answer within {DVC_SECONDS:.0f} s"
        yield problem(f"the remote {remote} cannot be reached: {why}", _HINTS[""])
    elif facts.get("status") in (401, 403):
        yield warning(f"the remote {remote} answers, but wants credentials", _HINTS["Credential"])
    elif facts.get("status", 0) >= 500:
        yield problem(f"the remote {remote} answers with error {facts['status']}", _HINTS[""])
    elif not facts["reached"] or not facts.get("writable", True):
        yield problem(f"the remote {remote} cannot be written to", "Ask for permission there, or use another folder.")
    elif not facts.get("exists", True):
        yield warning(f"the remote {remote} is a folder that does not exist", "Mount it, or let `dvc push` create it.")
    else:
        yield good(f"the remote {remote} answers" + (", and is empty" if facts.get("empty") else ""))
    if "remote_error" in facts and "reached" in facts:
        yield warning(f"the remote cannot be listed: {facts['remote_error']}", "Try `dvc status --cloud`.")


def _check_contents(facts: dict[str, Any]) -> Iterator[Note]:
    missing = [out["path"] for out in facts.get("outs", []) if not out["pushed"]]
    gone = [out["path"] for out in facts.get("outs", []) if not out["pushed"] and not out["cached"]]
    if missing:
        first = f"; before that `dvc repro`, as {and_more(gone, 5)} is not in the cache either." if gone else "."
        yield warning(
            f"of dvc.lock, the remote lacks {and_more(missing, 5)}: another clone would not get them",
            f"`dvc push`{first}",
        )
    elif facts.get("outs"):
        yield good(f"the remote has all {len(facts['outs'])} outputs of dvc.lock")
    runs = facts.get("runs") or {"local": 0, "pushed": 0}
    if runs["local"] > runs["pushed"]:
        yield warning(
            f"of the {runs['local']} newest runs in DVC's run-cache, the remote lacks "
            f"{runs['local'] - runs['pushed']}: others would compute them again",
            "`dvc push --run-cache`; others take them with `dvc pull --run-cache`.",
        )
    elif runs["local"]:
        yield good(f"the remote has the {runs['local']} newest runs of DVC's run-cache")
