"""Audits, histories and differences as plain values, for machines and for pages."""

from __future__ import annotations

from typing import Any

from pipeline.lineage.chain import Audit, Link, Part
from pipeline.lineage.difference import Difference, StageDifference
from pipeline.lineage.history import History
from pipeline.lineage.repository import Commit
from pipeline.lineage.verification import Verification


def _commit(link: Commit | None) -> dict[str, Any] | None:
    if link is None:
        return None
    keys = ("sha", "date", "author", "subject", "experiment", "baseline")
    return {key: getattr(link, key) for key in keys if getattr(link, key) is not None}


def _part(part: Part) -> dict[str, Any]:
    found: dict[str, Any] = {"path": part.artefact.path, "kind": part.kind, "md5": part.artefact.md5}
    found |= {"size": part.artefact.size, "state": part.state}
    if part.artefact.files is not None:
        found["nfiles"] = part.artefact.files
    if part.maker is not None:
        found["stage"] = part.maker
    if part.files is not None:
        found["files"] = part.files
    if part.differing is not None:
        found["differing"] = part.differing
    return found


def _link(link: Link) -> dict[str, Any]:
    return {
        "name": link.entry.name,
        "state": link.state,
        "command": link.entry.command,
        "params": link.entry.flat_params(),
        "deps": [_part(part) for part in link.deps],
        "outs": [_part(part) for part in link.outs],
        "weights": link.weights,
        "changed_params": {name: list(pair) for name, pair in link.changed_params.items()},
        "reasons": link.reasons,
        "commit": _commit(link.commit),
        "entry": link.entry.key,
        "run": link.run,
        "record": {"verdict": link.evidence.verdict, "why": link.evidence.why or None},
    }


def of_audit(found: Audit) -> dict[str, Any]:
    """An audit: ``stages`` has the one that made it first."""
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
        "revision": _commit(found.revision),
        "stages": [_link(link) for link in found.links],
        "not_known": found.unknown,
    }


def of_history(found: History) -> dict[str, Any]:
    """A history: ``points``, oldest first."""
    points = [
        {
            **(_commit(point.commit) or {}),
            "value": point.value,
            "edited": point.edited,
            "params": {name: list(pair) for name, pair in point.changed.items()},
            "code": point.code,
            "data": point.data,
        }
        for point in found.points
    ]
    return {"path": found.path, "key": found.key, "points": points, "not_known": found.unknown}


def of_difference(found: Difference) -> dict[str, Any]:
    """A difference: pairs are of the first and of the second."""

    def stage(one: StageDifference) -> dict[str, Any]:
        return {
            "name": one.name,
            "command": one.command,
            "params": one.params,
            "code": one.code,
            "data": one.data,
            "inputs": one.inputs,
            "outs": one.outs,
            "run": one.run,
            "packages": one.packages,
            "facts_known": one.facts_known,
        }

    return {
        "a": found.first,
        "b": found.second,
        "because": found.because,
        "edited": found.edited,
        "values": found.values,
        "stages": [stage(one) for one in found.stages],
    }


def of_verification(found: Verification) -> dict[str, Any]:
    """A verification."""
    outs = [
        {
            "path": out.path,
            "wanted": out.wanted,
            "found": out.found,
            "here": out.here,
            "same": out.same,
            "differing": out.differing,
        }
        for out in found.outs
    ]
    return {
        "stage": found.stage,
        "same": found.same,
        "exit_code": found.exit_code,
        "seconds": round(found.seconds, 1),
        "outs": outs,
        "remarks": found.remarks,
    }
