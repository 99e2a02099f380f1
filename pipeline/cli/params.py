"""The commands for the parameters of a project."""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path

from pipeline.cli.command import Commands, add_column, add_command, refuse

PARAMS = """\
Check the parameters of each pipeline, print what the stages use, or write them from a recipe.

--recipe writes all of params.yaml, with a comment for each parameter. A recipe has the
parameters that differ from its base, another recipe; without a base, from the published
values. --from reads a folder with pictures and captions, or a file, and writes the
section corpus for it. Then edit params.yaml, or set a parameter by
`dvc exp run -S section.key=value`.

    sightword params --list
    sightword params --recipe flickr8k
    sightword params --explain train.margin"""

_FIRST = "first pipeline"
_LIST_WIDTH = 80
"""The letters of a line of ``--list``."""


def add(commands: Commands) -> None:
    """Add ``params``."""
    params = add_command(commands, "params", PARAMS, _params)
    task = params.add_mutually_exclusive_group()
    task.add_argument("--check", action="store_true", help="only check")
    explain = "what a parameter means and may be, such as train.margin; or a whole section"
    task.add_argument("--explain", metavar="NAME", help=explain)
    task.add_argument("--list", action="store_true", help="show the recipes, what each needs, and its time")
    task.add_argument("--recipe", metavar="NAME", help="write params.yaml from a recipe: its name, or a file's path")
    own = "with --recipe: a folder or file with captions in the project to train on, such as data/raw/own"
    params.add_argument("--from", metavar="PATH", dest="source", type=Path, help=own)
    add_column(params)
    force = "with --recipe: replace a params.yaml with edits that git does not have"
    params.add_argument("--force", action="store_true", help=force)


def _params(arguments: argparse.Namespace) -> int:
    from pipeline.params import params_file, writing
    from pipeline.pipelines import find_project, pipelines, project_of
    from sightword.messages import flat

    refuse(
        arguments,
        (
            arguments.recipe is None and (arguments.source is not None or arguments.force),
            "--from and --force go with --recipe",
        ),
        (arguments.column and arguments.source is None, "--column goes with --from"),
    )
    if arguments.explain:
        return _explain(arguments.explain)
    if arguments.list:
        return _list_recipes(project_of(Path.cwd()))
    project = find_project(Path.cwd())
    if arguments.recipe:
        return _recipe(arguments, project)
    for pipeline in pipelines(project):
        path = _short(project / pipeline.params)
        sections = params_file.load(path)
        if arguments.check:
            print(f"{path}: all {len(sections)} sections are right")
            continue
        for name, settings in sections.items():
            print(f"{name}:")
            for key, value in flat(settings.model_dump()).items():
                print(f"  {key}: {writing.spelt(value)}")
    return 0


def _recipe(arguments: argparse.Namespace, project: Path) -> int:
    import tempfile

    from pipeline.params import overlay, recipes, writing

    recipe = recipes.find(arguments.recipe, project)
    pipeline = overlay.resolve(recipe, project).pipeline
    further = arguments.source is not None and pipeline.folder != ""
    refuse(arguments, (further, f"--from: {recipe.name} has no section corpus; name a recipe of the first pipeline"))
    overlay.check_added(pipeline, project)
    path = _short(project / pipeline.params)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.source:
            to = Path(folder) / "own.yaml"
            recipe, words = writing.of_corpus(recipe, arguments.source, project, to, arguments.column)
            print("\n".join(words))
        changed = writing.write(recipe, path, project, force=arguments.force)
    about = f" ({recipe.summary})" if recipe.summary else ""
    print(f"{path} {'is now' if changed else 'already was'} the recipe {recipe.name}{about}")
    if changed:
        print(f"Next: {pipeline.command}")
    return 0


def _list_recipes(project: Path) -> int:
    import textwrap

    from pipeline.params import overlay, recipes
    from pipeline.pipelines import shipped
    from sightword.errors import SightwordError

    listed = recipes.list_recipes(project)
    width = max(len(name) for name in (_FIRST, *(recipe.name for recipe in listed)))
    groups: dict[str, list[str]] = {}
    for recipe in listed:
        folder = "cannot be used"  # the recipe itself says why
        with contextlib.suppress(SightwordError):
            folder = overlay.pipeline_of(recipe, project).folder
        summary = textwrap.shorten(recipe.summary, _LIST_WIDTH - width - 4, placeholder=" …")
        line = f"{recipe.needs:16}  {recipe.time}" if recipe.needs else summary
        groups.setdefault(folder, []).append(f"  {recipe.name:{width}}  {line}".rstrip())
    for number, (folder, lines) in enumerate(sorted(groups.items())):
        heading = folder or _FIRST
        print("\n" * bool(number) + f"{heading:{width + 2}}  {'needs':16}  time on two cores")
        print("\n".join(lines))
    print(f"\nThe first lines of NAME.yaml in {shipped() / 'recipes'} say what a recipe is.")
    return 0


def _explain(name: str) -> int:
    import textwrap

    from pipeline.params import reference, writing

    for number, one in enumerate(reference.explain(name)):
        gap = "\n" if number else ""
        here = reference.present(one.name)
        values = f"published value {writing.spelt(one.default)}" + (f"; here {here}" if here else "")
        print(f"{gap}{one.name}: {one.accepted}; {values}")
        print(textwrap.fill(one.text, 100, initial_indent="  ", subsequent_indent="  "))
    return 0


def _short(path: Path) -> Path:
    return Path(os.path.relpath(path))
