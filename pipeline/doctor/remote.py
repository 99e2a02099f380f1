"""DVC's remote: whether there is one, whether it answers, and whether others will find this project's results there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline.doctor.context import PATIENCE, Situation
from pipeline.doctor.findings import Note, good, problem, warning
from pipeline.doctor.formats import some

_HINTS = {
    "MissingDeps": "Install what it needs, such as `pip install 'dvc[ssh]'` or `'dvc[s3]'`.",
    "Credential": "Give DVC your credentials: `dvc remote modify --local NAME ...`, or set your cloud's own up.",
    "Permission": "Ask for access, or give DVC other credentials: `dvc remote modify --local NAME ...`.",
    "NotFound": "Mend the address (`dvc remote modify NAME url ...`), or make the bucket.",
    "": "Look whether the address is right (`dvc remote list`) and the network or VPN is up.",
}
"""What to do, by a part of the error's name."""


def look_at_remote(situation: Situation) -> Iterator[Note]:
    """The default remote, and credentials where they do not belong."""
    facts = situation.facts("dvc")
    if "remotes" not in facts:
        return  # told where the cache is looked at
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
        yield problem(f"the default remote {name} is not configured", "`dvc remote list` tells which are.")
    elif not situation.quick:
        yield from _answer(f"{name} ({facts['remotes'][name]})", facts)
        yield from _results(facts)


def _answer(who: str, facts: dict[str, Any]) -> Iterator[Note]:
    if "remote_error" in facts and "reached" not in facts:
        kind = next(part for part in _HINTS if part.lower() in facts["remote_error"].lower())
        yield problem(f"the remote {who} cannot be reached: {facts['remote_error']}", _HINTS[kind])
    elif "reached" not in facts:
        why = f"it ended with: {facts['failed']}" if "failed" in facts else f"no answer within {PATIENCE:.0f} s"
        yield problem(f"the remote {who} cannot be reached: {why}", _HINTS[""])
    elif facts.get("status") in (401, 403):
        yield warning(f"the remote {who} answers, but wants credentials", _HINTS["Credential"])
    elif facts.get("status", 0) >= 500:
        yield problem(f"the remote {who} answers with error {facts['status']}", _HINTS[""])
    elif not facts["reached"] or not facts.get("writable", True):
        yield problem(f"the remote {who} cannot be written to", "Give permission there, or name another folder.")
    elif not facts.get("exists", True):
        yield warning(f"the remote {who} is a folder that is not there yet", "Mount it, or let `dvc push` make it.")
    else:
        yield good(f"the remote {who} answers" + (", nothing is in it yet" if facts.get("empty") else ""))
    if "remote_error" in facts and "reached" in facts:
        yield warning(
            f"what is in the remote is not known: {facts['remote_error']}", "`dvc status --cloud` may tell more."
        )


def _results(facts: dict[str, Any]) -> Iterator[Note]:
    missing = [out["path"] for out in facts.get("outs", []) if not out["pushed"]]
    gone = [out["path"] for out in facts.get("outs", []) if not out["pushed"] and not out["cached"]]
    if missing:
        yield warning(
            f"of dvc.lock, the remote lacks {some(missing)}: another clone would not get them",
            "`dvc push`"
            + (f"; {some(gone)} must first be made, by `dvc repro`: not in the cache either." if gone else "."),
        )
    elif facts.get("outs"):
        yield good(f"the remote has all {len(facts['outs'])} outputs of dvc.lock")
    runs = facts.get("runs")
    if runs and runs["local"] > runs["pushed"]:
        yield warning(
            f"of the {runs['local']} newest runs that DVC remembers here, the remote lacks "
            f"{runs['local'] - runs['pushed']}: others would compute them again",
            "`dvc push --run-cache`; they take them with `dvc pull --run-cache`.",
        )
    elif runs and runs["local"]:
        yield good(f"the remote has the {runs['local']} newest runs that DVC remembers here")
