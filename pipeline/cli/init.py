"""The command that makes a project."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from pipeline.cli.command import Commands, add_column, add_command, refuse

INIT = """\
Make a project in a new folder, of the sample or of your own pictures

`dvc repro` runs the project on the sample, or with --from on pictures and captions
of your own, which stay where they are.

The folder gets the first pipeline, its parameters, and lists of the files of the
installed program that each stage runs, with their hashes: DVC and git then know
which code made a result. git and DVC are initialised where they are not there
yet, and a new git repository gets its first commit. --add brings a further
pipeline into a project. When the program has changed, by an upgrade or an edit of
its code, --renew writes the lists anew, and `dvc repro` runs the stages whose
code has changed."""


def add(commands: Commands) -> None:
    """Add ``init``."""
    init = add_command(commands, "init", INIT, _init)
    init.add_argument("folder", metavar="FOLDER", nargs="?", help="a new or an empty folder; else a project")
    source = "a folder with pictures and captions, or its file with captions; data/raw/own becomes a link to it"
    init.add_argument("--from", metavar="PATH", dest="source", type=Path, help=source)
    add_column(init)
    init.add_argument("--add", metavar="PIPELINE", help="add a further pipeline to a project")
    init.add_argument("--renew", action="store_true", help="take over the program as it is installed now")


def _init(arguments: argparse.Namespace) -> int:
    other = arguments.renew or arguments.add is not None
    both = (arguments.renew and arguments.add is not None, "--add and --renew cannot be combined")
    late = (other and arguments.source is not None, "--from goes with a new FOLDER")
    alone = (arguments.column and arguments.source is None, "--column goes with --from")
    refuse(
        arguments, (arguments.folder is None and not other, "which FOLDER? `.` is the current one"), both, late, alone
    )
    from pipeline import new_project
    from pipeline.pipelines import find_project
    from sightword import __version__

    if not other:
        folder, words = new_project.create(Path(arguments.folder), arguments.source, arguments.column)
        here = os.path.relpath(folder)
        link = folder / new_project.OWN
        what = f"{new_project.OWN}, a link to {link.resolve()}" if arguments.source else "the sample corpus"
        print("\n".join(words), end="\n" * bool(words))
        print(f"{arguments.folder} is now a project, on {what}; its README.md says what is where.")
        steps = [] if here == "." else [f"cd {shlex.quote(arguments.folder)}"]
        steps += [] if new_project.first_commit(folder) else ["git add -A .", 'git commit -m "A new project"']
        print("Next: " + " && ".join([*steps, "dvc repro"]))
        return 0
    project = find_project(Path(arguments.folder or "."))
    if arguments.add is not None:
        pipeline = new_project.add(project, arguments.add)
        print(f"{project}: has the pipeline {arguments.add} now, on its sample")
        print(f'Next: git add -A . && git commit -m "{arguments.add}" && {pipeline.command}')
        return 0
    renewed = new_project.renew(project)
    if not any(renewed):
        print(f"{project}: was already of sightword {__version__} as it is installed")
        return 0
    counts = ", ".join(f"{len(names)} {what}" for what, names in renewed._asdict().items() if names)
    print(f"{project}: is now of sightword {__version__} (files: {counts}; `git diff` shows them)")
    print("Next: sightword params --check && dvc repro")
    return 0
