"""Audits, histories and differences as texts that a person reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.lineage.chain import Audit, Link, Part
from pipeline.lineage.difference import WORKSPACE, Difference
from pipeline.lineage.evidence import Evidence
from pipeline.lineage.history import History, Point
from pipeline.lineage.verification import Verification

PACKAGES = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "pyarrow", "h5py", "pillow", "dvc")
"""Whose versions the text shows; the JSON has all."""
SHOWN = 4
"""Paths that a line names before it counts the rest."""


def print_audit(found: Audit, *, brief: bool) -> None:
    """Print an audit; ``brief``: a line for each stage."""
    subject = found.subject
    name = f"{subject.path}:{subject.key}" if subject.key else subject.path or subject.what
    if subject.key:
        print(
            f"{name} = {json.dumps(found.value, ensure_ascii=False)}"
            if found.value is not None
            else f"{name}: not known"
        )
    else:
        print(name)
    if found.edited and subject.stage is not None:
        print(f"EDITED: this is not the file that {subject.stage.name} wrote")
    if subject.stage is None:
        print(f"no stage made it: it is an input of {', '.join(subject.readers)}")
    else:
        where = f" in {found.revision.name}" if found.revision else ""
        print(f"made by {subject.stage.name}{where}; {_summary(found)}")
    for link in found.links:
        if brief and link.evidence.verdict != "vouched for" and link.evidence.why:
            print(f"{link.entry.name}: {_record(link.evidence)}")
    for link in found.links:
        if brief:
            commit = link.commit.name if link.commit else "no commit"
            print(f"{link.entry.name:10} {link.state:13} {commit:9} {_run(link.run, brief=True)}")
        else:
            _print_link(link)
    if found.unknown:
        print("\nnot known")
        for line in found.unknown:
            print(f"  {line}")


def _summary(found: Audit) -> str:
    doubts = {verdict: found.stages(verdict) for verdict in ("contradicted", "never seen to run")}
    if found.state == "ok" and not any(doubts.values()):
        return "all that made it lies here as it was"
    by_state: dict[str, list[str]] = {}
    for link in found.links:
        if link.state != "ok":
            by_state.setdefault(link.state, []).append(link.entry.name)
    told = [f"{state}: {', '.join(names)}" for state, names in (by_state | doubts).items() if names]
    return "; ".join(told if by_state else ["nothing changed since", *told])


def _record(evidence: Evidence) -> str:
    """What the records of runs say of an entry, in one line."""
    verdict = evidence.verdict.upper() if evidence.verdict == "contradicted" else evidence.verdict
    return f"{verdict}: {evidence.why}" if evidence.why else verdict


def _print_link(link: Link) -> None:
    sheet = _Sheet()
    print(f"\n{link.entry.name}  {link.state}")
    sheet.line("command", link.entry.command)
    commit = link.commit
    sheet.line(
        "recorded", f"{commit.name} {commit.date[:10]} {commit.author}: {commit.subject}" if commit else "in no commit"
    )
    sheet.line("run", _run(link.run))
    sheet.line("record", _record(link.evidence))
    for name, value in link.weights.items():
        sheet.line("weights", f"{name} {value}")
    for name, value in link.entry.flat_params().items():
        now = f"   changed since: {_spelt(link.changed_params[name][1])}" if name in link.changed_params else ""
        sheet.line("params", f"{name} = {_spelt(value)}{now}")
    new = [name for name in link.changed_params if name not in link.entry.flat_params()]
    for name in new:
        sheet.line("params", f"{name} was not there   changed since: {_spelt(link.changed_params[name][1])}")
    for kind, title in (("code", "code"), ("data", "data"), ("output", "reads")):
        for part in link.deps:
            if part.kind == kind:
                _print_part(sheet, title, part)
    for part in link.outs:
        _print_part(sheet, "writes", part)
    for reason in link.reasons:
        sheet.line("changed", reason)


class _Sheet:
    """Lines with a title before them, which is not repeated."""

    def __init__(self) -> None:
        self._last = ""

    def line(self, title: str, text: str) -> None:
        print(f"  {'' if title == self._last else title:9} {text}")
        self._last = title


def _print_part(sheet: _Sheet, title: str, part: Part) -> None:
    artefact = part.artefact
    size = "" if artefact.size is None else f"{artefact.size:,} B"
    files = "" if artefact.files is None else f"{artefact.files} file{'' if artefact.files == 1 else 's'}"
    maker = f"from {part.maker}" if title == "reads" else ""
    told = "  ".join(text for text in (artefact.md5, size, files, maker, part.state) if text)
    sheet.line(title, f"{artefact.path}  {told}")
    for name, md5 in (part.files or {}).items():
        sheet.line(title, f"  {name}  {md5}")
    for name in part.differing or []:
        sheet.line(title, f"  {name}  differs")


def _run(run: Mapping[str, Any] | None, *, brief: bool = False) -> str:
    if run is None:
        return "not known" if not brief else ""
    when = f"{run['started'][:16].replace('T', ' ')} UTC on {run['host']}, {run['seconds']} s"
    if brief:
        return when
    packages = run["packages"]
    versions = ", ".join(f"{name} {packages[name]}" for name in PACKAGES if name in packages)
    loose = run.get("uncommitted") or []
    more = f" and {len(loose) - SHOWN} more" if len(loose) > SHOWN else ""
    return (
        f"{when}, {run['peak_memory_mb']} MB, {run['device']}, {run['processor']}, {run['threads']} threads; "
        f"Python {run['python']}, {versions}" + (f"; uncommitted: {', '.join(loose[:SHOWN])}{more}" if loose else "")
    )


def _spelt(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def print_history(found: History) -> None:
    """Print a history."""
    print(f"{found.path}:{found.key}")
    for point in found.points:
        indent = "  " if point.commit.experiment else ""
        print(f"\n{indent}{point.commit.name}  {_spelt(point.value)}  {point.commit.date[:16].replace('T', ' ')}  "
              f"{point.commit.author}: {point.commit.subject}")  # fmt: skip
        if point.edited:
            print(f"{indent}  EDITED: this is not the file that dvc.lock says the stage wrote")
        for line in _changes(point):
            print(f"{indent}  {line}")
    for line in found.unknown:
        print(f"\nnot known: {line}")


def _changes(point: Point) -> Iterator[str]:
    for name, (before, now) in point.changed.items():
        yield f"{name}: {_spelt(before)} -> {_spelt(now)}"
    for title, paths in (("code", point.code), ("data", point.data)):
        if paths:
            more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
            yield f"{title}: {', '.join(paths[:SHOWN])}{more}"


def print_difference(found: Difference) -> None:
    """Print a difference, its reasons first."""
    if not found.stages and not found.values:
        print(f"{found.first} and {found.second} are the same: commands, parameters, code, data and outputs")
        if WORKSPACE in (found.first, found.second):
            print("in dvc.lock, that is: what was changed here and not run yet is told by `sightword audit WHAT`")
        return
    print("why" if found.because else "why: not known")
    for line in found.because:
        print(f"  {line}")
    for stage in found.stages:
        print(f"\n{stage.name}")
        sheet = _Sheet()
        if stage.command:
            sheet.line("command", f"{stage.command[0]} -> {stage.command[1]}")
        for name, (before, now) in stage.params.items():
            sheet.line("params", f"{name}: {_spelt(before)} -> {_spelt(now)}")
        for title, paths in (
            ("code", stage.code),
            ("data", stage.data),
            ("reads", stage.inputs),
            ("writes", stage.outs),
        ):
            for path in paths:
                sheet.line(title, path)
        for title, pairs in (("machine", stage.run), ("packages", stage.packages)):
            for name, (before, now) in pairs.items():
                sheet.line(title, f"{name}: {before} -> {now}")
        if not stage.facts_known:
            sheet.line("packages", "not known: the facts of one of the runs, or both, are not here")
    if found.values:
        print("\nnumbers that differ")
        for name, (before, now) in found.values.items():
            print(f"  {name}: {_spelt(before)} -> {_spelt(now)}")


def print_verification(found: Verification) -> None:
    """Print what a rerun gave."""
    if found.exit_code:
        print(f"{found.stage}: the rerun failed with exit code {found.exit_code} after {found.seconds:.1f} s")
    for out in found.outs:
        said = "the same bytes" if out.same else "differs" if out.found else "was not written"
        print(f"{out.path}: {said}  {out.wanted}")
        if not out.same and out.found:
            print(f"  the rerun gave {out.found}")
        for name in out.differing or []:
            print(f"  {name} differs")
        if out.here == "changed since":
            print("  what lies here is another: it is not what the lock tells of")
    if not found.same and found.remarks:
        for line in found.remarks:
            print(f"  {line}")
    if found.outs:
        print(f"{found.stage}: {'verified' if found.same else 'NOT the same'}, {found.seconds:.1f} s")
