"""The command that makes a project."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pipeline.cli.command import Commands, add_command, refuse

INIT = """\
Make a project in a new folder, which `dvc repro` runs on the sample.

The folder gets the pipelines, their parameters, the recipes, and the code that the
stages run: DVC then knows what an edit changes, and git keeps the code of each
result. git and DVC are initialised where they are not there yet; nothing is
committed. After an upgrade of the package, --update replaces the project's code
by the new code, and `dvc repro` runs the stages whose code has changed."""


def add(commands: Commands) -> None:
    """Add ``init``."""
    init = add_command(commands, "init", INIT, _init)
    init.add_argument("folder", metavar="FOLDER", nargs="?", help="a new or an empty folder; with --update a project")
    init.add_argument("--update", action="store_true", help="take over the code of the installed package")


def _init(arguments: argparse.Namespace) -> int:
    refuse(arguments, (arguments.folder is None and not arguments.update, "which FOLDER? `.` is the current one"))
    from pipeline import new_project
    from pipeline.pipelines import find_project
    from sightword import __version__

    if not arguments.update:
        folder = new_project.create(Path(arguments.folder))
        here = os.path.relpath(folder)
        print(f"{arguments.folder} is now a project, on the sample corpus; its README.md says what is where.")
        print("Next: " + ("" if here == "." else f"cd {arguments.folder} && ") + "dvc repro")
        return 0
    project = find_project(Path(arguments.folder or "."))
    found = new_project.update(project)
    if not any(found):
        print(f"{project}: the code was already that of sightword {__version__}")
        return 0
    counts = ", ".join(f"{len(names)} {what}" for what, names in found._asdict().items() if names)
    print(f"{project}: the code is now that of sightword {__version__} (files: {counts}; `git diff` shows them)")
    print("Next: sightword params --check && dvc repro")
    return 0
