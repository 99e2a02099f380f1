"""Audits, histories, differences and reruns as plain values for machines, and as text."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.command import columns
from pipeline.lineage.evidence import STORED, in_words, started
from pipeline.lineage.files import WORKSPACE
from pipeline.pipelines import LEDGER
from sightword.evaluation.ledger import Count
from sightword.messages import and_more, plural
from sightword.report.departures import Departure

if TYPE_CHECKING:
    from pipeline.lineage.audit import Audit, Link, Traced
    from pipeline.lineage.history import Difference, History
    from pipeline.lineage.repository import Commit
    from pipeline.lineage.verify import Verification

Values = Mapping[str, Any]
SHOWN = 4
"""Paths that a line names before it counts the rest."""
VERSIONS = ("torch", "numpy")
"""The packages that a brief audit names."""
NUMBERS = 10
"""Numbers that a brief difference shows where no summary differs."""


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


def of_audit(audit: Audit) -> dict[str, Any]:
    """Return the values of an audit; the first of ``stages`` is the one that made the result."""
    subject = audit.subject
    return {
        "what": subject.what,
        "path": subject.path,
        "key": subject.key or None,
        "value": audit.value,
        "edited": audit.edited,
        "stage": subject.stage.name,
        "state": audit.state,
        "revision": _known(audit.revision) if audit.revision else None,
        "departures": [one._asdict() for one in audit.departures],
        "stages": [_link(link) for link in audit.links],
        "not_known": audit.unknown,
        "scorings": [asdict(one) for one in audit.scorings],
    }


def of_history(history: History) -> dict[str, Any]:
    """Return the values of a history; ``points`` are in order, the oldest first."""
    points = []
    for point in history.points:
        values = asdict(point)
        del values["commit"]
        points.append({**_known(point.commit), "params": values.pop("changed"), **values})
    return {"path": history.path, "key": history.key, "points": points, "not_known": history.unknown}


def of_difference(difference: Difference) -> dict[str, Any]:
    """Return the values of a difference; pairs are of the first and of the second."""
    values = asdict(difference)
    return {"a": values.pop("first"), "b": values.pop("second"), **values}


def of_verification(verification: Verification) -> dict[str, Any]:
    """Return the values of a rerun."""
    outs = [{**asdict(out), "same": out.same} for out in verification.outs]
    return {**asdict(verification), "same": verification.same, "seconds": round(verification.seconds, 1), "outs": outs}


def print_audit(audit: Values, *, full: bool) -> None:
    """Print an audit: a line for each stage, then what has changed; ``full``: everything about each stage."""
    name = audit["path"] or audit["what"]
    if audit["key"]:
        value = audit["value"] if full else rounded(audit["value"])
        name += f":{audit['key']}"
        name += f" = {spelt(value)}" if value is not None else ": not known"
    print(name)
    if audit["edited"]:
        print(f"EDITED: this is not the file that {audit['stage']} wrote")
    where = f" in {name_of(audit['revision'])}" if audit["revision"] else ""
    print(f"made by {audit['stage']}{where}; {_summary(audit)}")
    print(f"proof: `sightword audit --verify {audit['stage']}` runs it again and compares all bytes")
    rows = [[one["name"], *Departure(**one).cells()] for one in audit["departures"]]
    if rows:
        print(f"\n{columns([('parameter', 'value', 'published'), *rows])}")
    _print_whole(audit["stages"])
    _print_stages(audit["stages"])
    if full:
        _print_sheets(audit["stages"])
    if lines := _scoring_lines(audit["scorings"]):
        print("\nscored")
        _print_lines(lines)
    if audit["not_known"]:
        print("\nnot known")
        for line in audit["not_known"]:
            print(f"  {line}")


def _print_whole(stages: Sequence[Values]) -> None:
    """Print the raw data, and the commits, machines and time of all stages together."""
    inputs = [part for one in stages for part in one["deps"] if part["kind"] == "data"]
    data = {part["path"]: part for part in inputs if Path(part["path"]).name != LEDGER}
    largest = sorted(data.values(), key=lambda part: part["size"] or 0, reverse=True)
    commits = {one["commit"]["sha"]: one["commit"] for one in stages if one["commit"]}
    runs = [one["run"] for one in stages if one["run"]]
    lines = [("data", and_more([f"{part['path']} {part['md5'][:8]}" for part in largest], SHOWN))]
    lines += [("code", _commit_line(commit)) for commit in commits.values()]
    lines += [("machine", one) for one in dict.fromkeys(_machine(run, VERSIONS) for run in runs)]
    if runs:
        total = sum(run["seconds"] for run in runs)
        _, size, unit = next(one for one in ((7200, 3600, "h"), (120, 60, "min"), (0, 1, "s")) if total >= one[0])
        some = f", {len(runs)} of {len(stages)} stages" if len(runs) < len(stages) else ""
        stored = "".join(f"; {run['notes'][STORED]}" for run in runs if run.get("notes", {}).get(STORED))
        lines.append(("time", f"{total / size:.1f} {unit} in all{some}{stored}"))
    print()
    _print_lines(lines)


def _print_stages(stages: Sequence[Values]) -> None:
    """Print a table of the stages, then doubts about runs, and what has changed since."""
    rows = [["stage", "state", "commit", "when (UTC)", "seconds", "memory", ""]]
    for stage in stages:
        commit, run = name_of(stage["commit"]) if stage["commit"] else "no commit", stage["run"]
        ran = [""] * 4
        if run:
            when, stored = run["started"][:16].replace("T", " "), run.get("notes", {}).get(STORED, "")
            ran = [when, f"{run['seconds']}", f"{run['peak_memory_mb']} MB", stored]
        rows.append([stage["name"], stage["status"], commit, *ran])
    print(f"\n{columns(rows)}")
    for stage in stages:
        record = stage["record"]
        if record["why"] and record["verdict"] != "run recorded":
            print(f"{stage['name']}: {in_words(record['verdict'], record['why'])}")
    changes = {
        stage["name"]: [one for one in _sheet(stage) if one[2] == "changed since" and one[0] != "writes"]
        for stage in stages
    }
    if any(changes.values()):
        print("\nchanged since")
    for name, lines in changes.items():
        whole = ("params", "changed")
        texts = (text if title in whole else text.lstrip().partition("  ")[0] for title, text, _ in lines)
        if lines:
            print(f"  {name}: {and_more(dict.fromkeys(map(str.strip, texts)), SHOWN, between='; ')}")


def _print_sheets(stages: Iterable[Values]) -> None:
    """Print all about each stage; a commit or machine of several stages is printed once."""
    told: set[tuple[str, str]] = set()
    for stage in stages:
        print(f"\n{stage['name']}  {stage['status']}")
        lines = [(title, "  ".join(filter(None, [text, state]))) for title, text, state in _sheet(stage)]
        _print_lines(one for one in lines if one not in told)
        told |= {one for one in lines if one[0] in ("recorded", "machine")}


def _summary(audit: Values) -> str:
    stages: dict[str, list[str]] = {}
    for stage in audit["stages"]:
        stages.setdefault(stage["status"], []).append(stage["name"])
    lists = [f"{status}: {', '.join(names)}" for status, names in stages.items() if status != "ok"]
    return "; ".join(lists) or "all inputs unchanged"


def _print_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines with a title before them, which is not repeated."""
    last = ""
    for title, text in lines:
        print(f"  {'' if title == last else title:9} {text}")
        last = title


def print_history(history: Values, *, full: bool) -> None:
    """Print a history; ``full``: with all digits."""
    print(f"{history['path']}:{history['key']}")
    for point in history["points"]:
        indent = "  " if "experiment" in point else ""
        value = point["value"] if full else rounded(point["value"])
        print(f"\n{indent}{name_of(point)}  {spelt(value)}  {point['date'][:16].replace('T', ' ')}  "
              f"{point['author']}: {point['subject']}")  # fmt: skip
        if point["edited"]:
            print(f"{indent}  EDITED: this is not the file that dvc.lock says the stage wrote")
        if point["contradicted"]:
            print(f"{indent}  CONTRADICTED by a record of a run: {', '.join(point['contradicted'])}")
        for name, (before, now) in point["params"].items():
            print(f"{indent}  {name}: {spelt(before)} -> {spelt(now)}")
        for title in ("code", "data"):
            if point[title]:
                print(f"{indent}  {title}: {and_more(point[title], SHOWN)}")
    for line in history["not_known"]:
        print(f"\nnot known: {line}")


def print_difference(difference: Values, *, full: bool) -> None:
    """Print a difference, its reasons first; ``full``: with all files and numbers."""
    if not difference["stages"] and not difference["values"]:
        print(f"{difference['a']} and {difference['b']} are the same: commands, parameters, code, data and outputs")
        if WORKSPACE in (difference["a"], difference["b"]):
            print("in dvc.lock, that is: `sightword audit WHAT` reports what was changed here and not run yet")
        for line in difference["doubts"]:
            print(f"  {line}")
        return
    print("why" if difference["because"] else "why: not known")
    for line in difference["because"]:
        print(f"  {line}")
    for stage in difference["stages"]:
        if lines := list(_stage_lines(stage, full=full)):
            print(f"\n{stage['name']}")
            _print_lines(lines)
    if unknown := [stage["name"] for stage in difference["stages"] if not stage["facts_known"]]:
        print(f"\npackages and machine not known: no run record found of {', '.join(unknown)}")
    numbers: Values = difference["values"]
    summaries = {name: pair for name, pair in numbers.items() if name.partition(":")[0].endswith("summary.json")}
    shown = numbers if full else summaries or dict(list(numbers.items())[:NUMBERS])
    if shown:
        print("\nnumbers that differ")
    for name, pair in shown.items():
        before, now = (spelt(one if full else rounded(one)) for one in pair)
        before, now = (before, now) if before != now else map(spelt, pair)
        print(f"  {name}: {before} -> {now}")
    if rest := len(numbers) - len(shown):
        print(f"  and {rest} more: --full shows all, with all digits")


def rounded(value: Any) -> Any:
    """Return a value with its floats rounded to six digits, as plots have them."""
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _stage_lines(stage: Values, *, full: bool) -> Iterator[tuple[str, str]]:
    if stage["command"]:
        yield "command", f"{stage['command'][0]} -> {stage['command'][1]}"
    for name, (before, now) in stage["params"].items():
        yield "params", f"{name}: {spelt(before)} -> {spelt(now)}"
    kinds = {"code": "code", "data": "data"} | ({"reads": "inputs", "writes": "outs"} if full else {})
    for title, kind in kinds.items():
        for path in stage[kind]:
            yield title, path
    for title, kind in (("machine", "run"), ("packages", "packages")):
        for name, (before, now) in stage[kind].items():
            yield title, f"{name}: {before} -> {now}"


def print_verification(verification: Values) -> None:
    """Print the result of a rerun."""
    stage, seconds = verification["stage"], verification["seconds"]
    if verification["exit_code"]:
        print(f"{stage}: the rerun failed with exit code {verification['exit_code']} after {seconds:.1f} s")
    for out in verification["outs"]:
        result = "the same bytes" if out["same"] else "differs" if out["found"] else "was not written"
        print(f"{out['path']}: {result}  {out['wanted']}")
        if not out["same"] and out["found"]:
            print(f"  the rerun gave {out['found']}")
        for name in out["differing"] or []:
            print(f"  {name} differs")
        if out["here"] == "changed since":
            print("  the file here is another one: dvc.lock does not describe it")
    for line in [] if verification["same"] else verification["remarks"]:
        print(f"  {line}")
    if verification["outs"]:
        print(f"{stage}: {'verified' if verification['same'] else 'NOT the same'}, {seconds:.1f} s")


def _scoring_lines(scorings: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the counts of an audit as stage and words; tasks of one stage with equal counts share a line."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for one in scorings:
        key = tuple(one[name] for name in ("stage", "split", "scorings", "encoders", "epochs"))
        groups.setdefault(key, []).append(f"{one['of']} ({one['items']:,}, {one['rows'][:8]})")
    return [
        (stage, f"{split} of {and_more(names, SHOWN)}: {Count(*counts)}")
        for (stage, split, *counts), names in groups.items()
    ]


def _sheet(stage: Values) -> Iterator[tuple[str, str, str]]:
    """Yield all that an audit knows of a stage by lines of title, text and state, the parameters first."""
    commit, run, record, changed = stage["commit"], stage["run"], stage["record"], stage["changed_params"]
    for name in dict.fromkeys([*stage["params"], *changed]):
        then = f"{name} = {spelt(stage['params'][name])}" if name in stage["params"] else f"{name} was not there"
        now = f"  now {spelt(changed[name][1])}" if name in changed else ""
        yield "params", then + now, "changed since" if now else ""
    yield "command", stage["command"], ""
    yield "recorded", _commit_line(commit) if commit else "in no commit", ""
    yield "run", _run_line(run) if run else "not known", ""
    if run:
        yield "machine", _machine(run, run["packages"]), ""
    yield "record", in_words(record["verdict"], record["why"]), record["verdict"] if record["doubted"] else ""
    for name, value in stage["weights"].items():
        yield "weights", f"{name} {value}", ""
    for reason in stage["reasons"]:
        yield "changed", reason, "changed since"
    for title, kind in (("code", "code"), ("data", "data"), ("reads", "output")):
        for part in stage["deps"]:
            if part["kind"] == kind:
                yield from _part_lines(title, part)
    for part in stage["outs"]:
        yield from _part_lines("writes", part)


def _commit_line(commit: Values) -> str:
    return f"{name_of(commit)} {commit['date'][:10]} {commit['author']}: {commit['subject']}"


def _part_lines(title: str, part: Values) -> Iterator[tuple[str, str, str]]:
    size = "" if part["size"] is None else f"{part['size']:,} B"
    files = plural(part["nfiles"], "file") if "nfiles" in part else ""
    maker = f"from {part['stage']}" if title == "reads" and "stage" in part else ""
    yield title, "  ".join(filter(None, (part["path"], part["md5"], size, files, maker))), part["state"]
    for name, md5 in part.get("files", {}).items():
        yield title, f"  {name}  {md5}", ""
    for name in part.get("differing", []):
        yield title, f"  {name}  differs", "changed since"


def _run_line(run: Values) -> str:
    """Return the facts of a run on one line, without those of its machine."""
    stored, loose = run.get("notes", {}).get(STORED), run.get("uncommitted") or []
    text = f"{started(run)}, {run['seconds']} s" + (f", {stored}" if stored else "")
    return text + f", {run['peak_memory_mb']} MB" + (f"; uncommitted: {and_more(loose, SHOWN)}" if loose else "")


def _machine(run: Values, packages: Collection[str]) -> str:
    """Return the machine of a run with versions on one line."""
    versions = ", ".join(f"{name} {version}" for name, version in run["packages"].items() if name in packages)
    where = f"{run['host']}, " if run.get("host") else ""
    threads = plural(run["threads"], "thread")
    return f"{where}{run['device']}, {run['processor']}, {threads}; Python {run['python']}, {versions}"


def name_of(commit: Values) -> str:
    """Return the name of an experiment, or the first digits of a commit's sha."""
    return str(commit.get("experiment") or commit["sha"][:7])


def spelt(value: Any) -> str:
    """Return a value as JSON spells it."""
    return json.dumps(value, ensure_ascii=False)
