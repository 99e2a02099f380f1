"""The command that looks whether machine and project are fit for a run."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.command import Commands, add_command

if TYPE_CHECKING:
    from pipeline.doctor.findings import Finding, Note
    from pipeline.lineage.lock import Lock

DOCTOR = """\
Check machine and project: packages, disk, memory, data, remote, git.

Each line is ok, a warning or a problem, with what to do about it. Exits with 1
when there is a problem. Nothing is changed. Outside a project only the machine is
checked. --lock checks one thing instead: whether dvc.lock belongs to the code, the
parameters and dvc.yaml as they are, which needs no data; a pull request is checked so."""

_MARKS = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}


def add(commands: Commands) -> None:
    """Add ``doctor``."""
    doctor = add_command(commands, "doctor", DOCTOR, _doctor)
    doctor.add_argument("--quick", action="store_true", help="leave out torch, the remote, sizes and hashes")
    doctor.add_argument("--json", action="store_true", help="a list of objects with check, state, what and todo")
    doctor.add_argument("--lock", action="store_true", help="only check dvc.lock against code and parameters")


def _doctor(arguments: argparse.Namespace) -> int:
    from pipeline.pipelines import find_project
    from sightword.errors import SetupError

    if arguments.quick and arguments.lock:
        arguments.parser.error("--quick and --lock are two things")
    try:
        project = find_project(Path.cwd())
    except SetupError:
        if arguments.lock:
            raise
        project = None
    found = _lock(project) if project is not None and arguments.lock else _examine(project, quick=arguments.quick)
    problems = sum(finding.state == "problem" for finding in found)
    if arguments.json:
        import json

        print(json.dumps([finding.as_json() for finding in found], indent=2, ensure_ascii=False))
    else:
        for finding in found:
            _print(finding)
        if not arguments.lock:
            _print_summary(found, project)
    return 1 if problems else 0


def _examine(project: Path | None, *, quick: bool) -> list[Finding]:
    from pipeline.doctor.checks import CHECKS
    from pipeline.doctor.context import Situation
    from pipeline.doctor.findings import examine

    with Situation(Path.cwd(), project, quick=quick, dvc="pipeline.doctor.dvc_facts") as situation:
        return list(examine(CHECKS, situation))


def _print(finding: Finding) -> None:
    print(f"{_MARKS[finding.state]}  {finding.check + ':':11}{finding.what}")
    if finding.todo:
        print(f"{'':20}-> {finding.todo}")


def _print_summary(found: list[Finding], project: Path | None) -> None:
    counts = {state: sum(finding.state == state for finding in found) for state in _MARKS}
    where = f"{project}" if project else "this machine (there is no project here)"
    print(f"\n{where}: {counts['problem']} problems, {counts['warning']} warnings, {counts['ok']} ok")


def _lock(project: Path) -> list[Finding]:
    """Whether the lock belongs to code and parameters."""
    from pipeline.doctor import lockfile
    from pipeline.doctor.findings import Finding
    from pipeline.lineage import documents
    from pipeline.lineage.lock import LOCK, read_lock, tracked_hashes
    from sightword.errors import SightwordError
    from sightword.files import read_text

    try:
        read = {name: documents.parse(read_text(project / name), name) for name in ("dvc.yaml", "params.yaml")}
        lock = read_lock(read_text(project / LOCK, todo="Run `dvc repro`, and commit the dvc.lock that it writes."))
        status = _status(project)
        for name, values in read.items():
            if not isinstance(values, dict):
                return [Finding("problem", f"{name} has no sections", f"`git checkout -- {name}`.", "lock")]
        tracked: dict[str, str] = {}
        for name in _dvc_files(project):
            tracked |= tracked_hashes(read_text(project / name), name)
        reasons = lockfile.stale(status, read["dvc.yaml"], read["params.yaml"], lock, tracked)
    except SightwordError as error:
        place = f"{error.where}: " if error.where else ""
        return [Finding("problem", f"{place}{error.what}", error.todo or "", "lock")]
    found = [
        Finding(note.state, f"{name}: {note.what}", note.todo, "lock") for name in reasons for note in reasons[name]
    ]
    stale = [finding for finding in found if finding.state == "problem"]
    weighed = [Finding(note.state, note.what, note.todo, "lock") for note in _evidence(project, lock)]
    if stale:
        todo = "Where the data is: `dvc repro` and `dvc push`, then commit dvc.lock, metrics and plots."
        last = Finding("problem", stale[-1].what, todo, "lock")
        return [*weighed, *(finding for finding in found if finding.state != "problem"), *stale[:-1], last]
    if any(finding.state == "problem" for finding in weighed):
        return [*found, *weighed]
    said = f"dvc.lock belongs to the code, the parameters and the commands of all {len(lock.entries)} stages"
    return [*found, *weighed, Finding("ok", said, "", "lock")]


def _evidence(project: Path, lock: Lock) -> list[Note]:
    """Whether the entries of the lock ever ran."""
    from pipeline.cli.lineage import facts_folders
    from pipeline.doctor import lockfile
    from pipeline.lineage.cache import Cache
    from pipeline.lineage.evidence import Records

    facts = facts_folders(project)
    records = Records(Cache(project), facts, project)
    weighed = {name: records.weigh(entry) for name, entry in lock.entries.items()}
    return lockfile.doubts(weighed, no_records=records.empty)


def _dvc_files(project: Path) -> list[str]:
    """The .dvc files that git has or would take, from the project's folder."""
    import subprocess

    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.dvc"]
    try:
        done = subprocess.run(command, cwd=project, capture_output=True, check=False)  # noqa: S603 - fixed words
    except OSError:
        return []
    names = done.stdout.decode(errors="replace").split("\0") if not done.returncode else []
    return [name for name in names if name and (project / name).is_file()]


def _status(project: Path) -> dict[str, Any]:
    """What ``dvc status --json`` says."""
    import json
    import subprocess

    from sightword.errors import SetupError

    command = [sys.executable, "-m", "dvc", "status", "--json"]
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    said = " ".join(line.strip() for line in done.stderr.splitlines() if line.strip()) or "it said nothing"
    if done.returncode:
        raise SetupError(f"DVC cannot read the project: {said.removeprefix('ERROR: ')}", todo="Mend what it names.")
    try:
        values = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise SetupError(f"DVC gave no answer: {said}", todo="Try `dvc status`.") from None
    return values if isinstance(values, dict) else {}
