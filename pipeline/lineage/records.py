"""Audits, histories, differences and reruns as plain values: for machines, and as the source of texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from pipeline.lineage.chain import Audit, Link, Traced
from pipeline.lineage.difference import Difference
from pipeline.lineage.evidence import in_words
from pipeline.lineage.history import History
from pipeline.lineage.known_facts import STORED, started
from pipeline.lineage.repository import Commit
from pipeline.lineage.verification import Verification
from sightword.evaluation.ledger import Count
from sightword.messages import and_more, plural

PACKAGES = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "pyarrow", "h5py", "pillow", "dvc")
"""The packages whose versions a line about a run names; the values have all."""
DIGITS = 8
"""Digits of the hash of a split in a line."""
SHOWN = 4
"""Paths that a line names before it counts the rest."""


class Line(NamedTuple):
    """A line about a stage."""

    title: str
    """Such as ``params``; several lines may have one title."""
    cells: tuple[str, ...]
    state: str = ""
    """The comparison with the workspace; empty where nothing is compared."""


def sheet(stage: Mapping[str, Any]) -> Iterator[Line]:
    """Yield everything an audit knows of a stage of :func:`of_audit`, line by line, the parameters first."""
    changed = stage["changed_params"]
    for name in dict.fromkeys([*stage["params"], *changed]):
        then = f"{name} = {spelt(stage['params'][name])}" if name in stage["params"] else f"{name} was not there"
        if name in changed:
            yield Line("params", (then, f"now {spelt(changed[name][1])}"), "changed since")
        else:
            yield Line("params", (then,))
    commit, run, record = stage["commit"], stage["run"], stage["record"]
    when = f"{commit['date'][:10]} {commit['author']}: {commit['subject']}" if commit else ""
    yield Line("command", (stage["command"],))
    yield Line("recorded", (f"{name_of(commit)} {when}" if commit else "in no commit",))
    yield Line("run", (run_line(run) if run else "not known",))
    if run:
        yield Line("machine", (machine_line(run),))
    yield Line("record", (record_line(record),), record["verdict"] if record["doubted"] else "")
    for name, value in stage["weights"].items():
        yield Line("weights", (f"{name} {value}",))
    for reason in stage["reasons"]:
        yield Line("changed", (reason,), "changed since")
    for title, kind in (("code", "code"), ("data", "data"), ("reads", "output")):
        for part in stage["deps"]:
            if part["kind"] == kind:
                yield from _part_lines(title, part)
    for part in stage["outs"]:
        yield from _part_lines("writes", part)


def _part_lines(title: str, part: Mapping[str, Any]) -> Iterator[Line]:
    size = "" if part["size"] is None else f"{part['size']:,} B"
    files = plural(part["nfiles"], "file") if "nfiles" in part else ""
    maker = part.get("stage", "") if title == "reads" else ""
    cells = (part["path"], part["md5"], size, files, f"from {maker}" if maker else "")
    yield Line(title, cells, part["state"])
    for name, md5 in part.get("files", {}).items():
        yield Line(title, (f"  {name}", md5))
    for name in part.get("differing", []):
        yield Line(title, (f"  {name}", "differs"), "changed since")


def run_line(run: Mapping[str, Any], *, brief: bool = False) -> str:
    """Return the facts of a run on one line, without those of its machine."""
    when, loose = f"{started(run)} on {run['host']}, {run['seconds']} s", run.get("uncommitted") or []
    if stored := run.get("notes", {}).get(STORED):
        when += f", {stored}"
    if brief:
        return when
    return f"{when}, {run['peak_memory_mb']} MB" + (f"; uncommitted: {and_more(loose, SHOWN)}" if loose else "")


def machine_line(run: Mapping[str, Any]) -> str:
    """Return the machine of a run and the main versions on one line."""
    packages = run["packages"]
    threads = plural(run["threads"], "thread")
    if (ranks := run.get("ranks", 1)) > 1:
        threads += f" in each of {ranks} processes"
    versions = ", ".join(f"{name} {packages[name]}" for name in PACKAGES if name in packages)
    return f"{run['device']}, {run['processor']}, {threads}; Python {run['python']}, {versions}"


def record_line(record: Mapping[str, Any]) -> str:
    """Return the verdict of the records of runs on a stage on one line."""
    return in_words(record["verdict"], record["why"])


def name_of(commit: Mapping[str, Any]) -> str:
    """Return the name of an experiment, or the first digits of a commit's sha."""
    return str(commit.get("experiment") or commit["sha"][:7])


def spelt(value: Any) -> str:
    """Return a value as JSON spells it."""
    return json.dumps(value, ensure_ascii=False)


def _known(value: Commit | Traced) -> dict[str, Any]:
    return {name: one for name, one in asdict(value).items() if one is not None or name == "size"}


def _link(link: Link) -> dict[str, Any]:
    entry, evidence = link.entry, link.evidence
    return {
        "name": entry.name,
        "status": link.status,
        "state": link.state,
        "command": entry.command,
        "params": entry.flat_params(),
        "deps": [_known(part) for part in link.deps],
        "outs": [_known(part) for part in link.outs],
        "weights": link.weights,
        "changed_params": link.changed_params,
        "reasons": link.reasons,
        "commit": _known(link.commit) if link.commit else None,
        "entry": entry.key,
        "run": link.run,
        "record": {"verdict": evidence.verdict, "why": evidence.why or None, "doubted": evidence.doubted},
    }


def of_audit(found: Audit) -> dict[str, Any]:
    """Return the values of an audit; the first of ``stages`` is the one that made the result."""
    subject = found.subject
    return {
        "what": subject.what,
        "path": subject.path,
        "key": subject.key or None,
        "value": found.value,
        "edited": found.edited,
        "stage": subject.stage.name if subject.stage else None,
        "read_by": list(subject.readers),
        "state": found.state,
        "revision": _known(found.revision) if found.revision else None,
        "stages": [_link(link) for link in found.links],
        "not_known": found.unknown,
        "scorings": [asdict(one) for one in found.scorings],
    }


def scoring_lines(scorings: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the counts of an audit as stage and words; tasks of one stage with equal counts share a line."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for one in scorings:
        key = tuple(one[name] for name in ("stage", "split", "scorings", "encoders", "epochs", "place", "dated"))
        groups.setdefault(key, []).append(f"{one['of']} ({one['items']:,}, {one['rows'][:DIGITS]})")
    found = []
    for (stage, split, *counts, place, dated), names in groups.items():
        words = f"{split} of {and_more(names, SHOWN)}: {Count(*counts)}"
        words += f"; this scoring is number {place} of {dated} whose times are known" if place else ""
        found.append((stage, words))
    return found


def of_history(found: History) -> dict[str, Any]:
    """Return the values of a history; ``points`` are in order, the oldest first."""
    points = []
    for point in found.points:
        values = asdict(point)
        del values["commit"]
        points.append({**_known(point.commit), "params": values.pop("changed"), **values})
    return {"path": found.path, "key": found.key, "points": points, "not_known": found.unknown}


def of_difference(found: Difference) -> dict[str, Any]:
    """Return the values of a difference; pairs are of the first and of the second."""
    values = asdict(found)
    return {"a": values.pop("first"), "b": values.pop("second"), **values}


def of_verification(found: Verification) -> dict[str, Any]:
    """Return the values of a rerun."""
    outs = [{**asdict(out), "same": out.same} for out in found.outs]
    return {**asdict(found), "same": found.same, "seconds": round(found.seconds, 1), "outs": outs}
