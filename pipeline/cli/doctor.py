"""The command ``doctor``."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.cli.command import Commands, add_command, refuse

DOCTOR = """\
Check machine and project: packages, torch, device, data, remote, git, disk.

Each line is ok, a warning or a problem, with advice. Exits with 1 when there is a
problem. Nothing is changed. Outside a project only the machine is checked. --lock
checks one thing instead: whether dvc.lock belongs to the present code, parameters
and dvc.yaml. That needs no data, and is a check for pull requests."""

_MARKS = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}


def add(commands: Commands) -> None:
    """Add ``doctor``."""
    doctor = add_command(commands, "doctor", DOCTOR, _doctor)
    doctor.add_argument("--quick", action="store_true", help="leave out torch, device, store, remote and hashes")
    doctor.add_argument("--json", action="store_true", help="a list of objects with check, state, what and todo")
    doctor.add_argument("--lock", action="store_true", help="only check dvc.lock against code and parameters")


def _doctor(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict, replace

    from pipeline.pipelines import find_project
    from sightword.errors import SetupError
    from sightword.messages import plural

    refuse(arguments, (arguments.quick and arguments.lock, "--quick and --lock cannot be combined"))
    try:
        project = find_project(Path.cwd())
    except SetupError:
        if arguments.lock:
            raise
        project = None
    if project is not None and arguments.lock:  # few packages are enough for this branch
        from pipeline.doctor import lockfile

        findings = [replace(finding, check="lock") for finding in lockfile.check_lock(project)]
    else:
        from pipeline.doctor.findings import Context, examine
        from pipeline.doctor.project import checks

        findings = list(examine(checks(Path.cwd()), Context(Path.cwd(), project, quick=arguments.quick)))
    counts = {state: sum(finding.state == state for finding in findings) for state in _MARKS}
    if arguments.json:
        import json

        print(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            print(f"{_MARKS[finding.state]}  {finding.check + ':':12}{finding.what}")
            if finding.todo:
                print(f"{'':21}-> {finding.todo}")
        if not arguments.lock:
            where = project or "this machine (there is no project here)"
            problems, warnings = (plural(counts[state], state) for state in ("problem", "warning"))
            print(f"\n{where}: {problems}, {warnings}, {counts['ok']} ok")
    return 1 if counts["problem"] else 0
