"""Prints audits, histories, differences and reruns; the values are those of :mod:`pipeline.lineage.records`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.lineage.locks import WORKSPACE
from pipeline.lineage.records import SHOWN, name_of, record_line, run_line, scoring_lines, sheet, spelt
from sightword.messages import and_more

Values = Mapping[str, Any]
NUMBERS = 10
"""Numbers that a brief difference shows where no summary differs."""


def print_audit(found: Values, *, full: bool) -> None:
    """Print an audit: a line for each stage, then what has changed; ``full``: everything about each stage."""
    name = found["path"] or found["what"]
    if found["key"]:
        value = found["value"] if full else rounded(found["value"])
        name += f":{found['key']}"
        name += f" = {spelt(value)}" if value is not None else ": not known"
    print(name)
    if found["edited"]:
        print(f"EDITED: this is not the file that {found['stage']} wrote")
    if found["stage"] is None:
        print(f"no stage made it: it is an input of {', '.join(found['read_by'])}")
    else:
        where = f" in {name_of(found['revision'])}" if found["revision"] else ""
        print(f"made by {found['stage']}{where}; {_summary(found)}")
        print(f"proof: `sightword audit --verify {found['stage']}` runs it again and compares all bytes")
    (_print_sheets if full else _print_stages)(found["stages"])
    if lines := scoring_lines(found["scorings"]):
        print("\nscored")
        _print_lines(lines)
    if found["not_known"]:
        print("\nnot known")
        for line in found["not_known"]:
            print(f"  {line}")


def _print_stages(stages: Sequence[Values]) -> None:
    """Print a line for each stage, then doubts about runs, and what has changed since."""
    rows = [
        (
            *(stage["name"], stage["status"], name_of(stage["commit"]) if stage["commit"] else "no commit"),
            run_line(stage["run"], brief=True) if stage["run"] else "",
        )
        for stage in stages
    ]
    widths = [max([least, *(len(row[place]) for row in rows)]) for place, least in enumerate((10, 13, 9, 0))]
    for row in rows:
        print(" ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    for stage in stages:
        if stage["record"]["why"] and stage["record"]["verdict"] != "run recorded in":
            print(f"{stage['name']}: {record_line(stage['record'])}")
    changes = {
        stage["name"]: [line for line in sheet(stage) if line.state == "changed since" and line.title != "writes"]
        for stage in stages
    }
    if any(changes.values()):
        print("\nchanged since")
    for name, lines in changes.items():
        texts = ("  ".join(line.cells if line.title in ("params", "changed") else line.cells[:1]) for line in lines)
        if lines:
            print(f"  {name}: {and_more(dict.fromkeys(map(str.strip, texts)), SHOWN, between='; ')}")


def _print_sheets(stages: Iterable[Values]) -> None:
    for stage in stages:
        print(f"\n{stage['name']}  {stage['status']}")
        _print_lines((line.title, "  ".join(filter(None, [*line.cells, line.state]))) for line in sheet(stage))


def _summary(found: Values) -> str:
    stages: dict[str, list[str]] = {}
    for stage in found["stages"]:
        stages.setdefault(stage["status"], []).append(stage["name"])
    lists = [f"{status}: {', '.join(names)}" for status, names in stages.items() if status != "ok"]
    return "; ".join(lists) or "all inputs unchanged"


def _print_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines with a title before them, which is not repeated."""
    last = ""
    for title, text in lines:
        print(f"  {'' if title == last else title:9} {text}")
        last = title


def print_history(found: Values, *, full: bool) -> None:
    """Print a history; ``full``: with all digits."""
    print(f"{found['path']}:{found['key']}")
    for point in found["points"]:
        indent = "  " if "experiment" in point else ""
        value = point["value"] if full else rounded(point["value"])
        print(f"\n{indent}{name_of(point)}  {spelt(value)}  {point['date'][:16].replace('T', ' ')}  "
              f"{point['author']}: {point['subject']}")  # fmt: skip
        if point["edited"]:
            print(f"{indent}  EDITED: this is not the file that dvc.lock says the stage wrote")
        if point["contradicted"]:
            print(f"{indent}  CONTRADICTED by a record of a run: {', '.join(point['contradicted'])}")
        if point["foreign"]:
            print(f"{indent}  OF ANOTHER RUN, with other inputs: {', '.join(point['foreign'])}")
        for name, (before, now) in point["params"].items():
            print(f"{indent}  {name}: {spelt(before)} -> {spelt(now)}")
        for title in ("code", "data"):
            if point[title]:
                print(f"{indent}  {title}: {and_more(point[title], SHOWN)}")
    for line in found["not_known"]:
        print(f"\nnot known: {line}")


def print_difference(found: Values, *, full: bool) -> None:
    """Print a difference, its reasons first; ``full``: with all files and numbers."""
    if not found["stages"] and not found["values"]:
        print(f"{found['a']} and {found['b']} are the same: commands, parameters, code, data and outputs")
        if WORKSPACE in (found["a"], found["b"]):
            print("in dvc.lock, that is: `sightword audit WHAT` reports what was changed here and not run yet")
        for line in found["doubts"]:
            print(f"  {line}")
        return
    print("why" if found["because"] else "why: not known")
    for line in found["because"]:
        print(f"  {line}")
    for stage in found["stages"]:
        if lines := list(_stage_lines(stage, full=full)):
            print(f"\n{stage['name']}")
            _print_lines(lines)
    if unknown := [stage["name"] for stage in found["stages"] if not stage["facts_known"]]:
        print(f"\npackages and machine not known: no run record found of {', '.join(unknown)}")
    shown = found["values"] if full else _headline(found["values"])
    if shown:
        print("\nnumbers that differ")
    for name, pair in shown.items():
        before, now = (spelt(one if full else rounded(one)) for one in pair)
        before, now = (before, now) if before != now else map(spelt, pair)
        print(f"  {name}: {before} -> {now}")
    if rest := len(found["values"]) - len(shown):
        print(f"  and {rest} more: --full shows all, with all digits")


def _headline(values: Values) -> Values:
    """Return the numbers of summaries; the first of all numbers where no summary differs."""
    summaries = {name: pair for name, pair in values.items() if name.partition(":")[0].endswith("summary.json")}
    return summaries or dict(list(values.items())[:NUMBERS])


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


def print_verification(found: Values) -> None:
    """Print the result of a rerun."""
    stage, seconds = found["stage"], found["seconds"]
    if found["exit_code"]:
        print(f"{stage}: the rerun failed with exit code {found['exit_code']} after {seconds:.1f} s")
    for out in found["outs"]:
        result = "the same bytes" if out["same"] else "differs" if out["found"] else "was not written"
        print(f"{out['path']}: {result}  {out['wanted']}")
        if not out["same"] and out["found"]:
            print(f"  the rerun gave {out['found']}")
        for name in out["differing"] or []:
            print(f"  {name} differs")
        if out["here"] == "changed since":
            print("  the file here is another one: dvc.lock does not describe it")
    for line in [] if found["same"] else found["remarks"]:
        print(f"  {line}")
    if found["outs"]:
        print(f"{stage}: {'verified' if found['same'] else 'NOT the same'}, {seconds:.1f} s")
