"""The command ``sightword``: what a person does beside ``dvc``.

Everything heavy is imported by the command that needs it, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline import __version__
from pipeline.errors import SightwordError

Run = Callable[[argparse.Namespace], int]

RECIPE = """\
Write params.yaml whole from a recipe, with its comments.

A recipe is a complete set of parameters, such as the published ones. From there,
edit params.yaml, or let `dvc exp run -S section.key=value` do it."""

PARAMS = """\
Check params.yaml, and print what the stages will use, section by section."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments after the program's name; default: those of the process.

    Returns:
        The exit code: 0 done, 1 a mistake that the message on standard error
        explains, 2 wrong arguments, 130 interrupted.
    """
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except SightwordError as error:
        print(f"sightword: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has seen enough (`sightword params | head`); nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"sightword: {place}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sightword", description="From pictures with captions to a sentence encoder: what goes beside `dvc repro`."
    )
    parser.add_argument("--version", action="version", version=f"sightword {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    recipe = _command(commands, "recipe", RECIPE, _recipe)
    recipe.add_argument("name", metavar="NAME", nargs="?", help="a recipe's name, or the path of a file")
    recipe.add_argument("--list", action="store_true", help="show the recipes and what they are")
    recipe.add_argument("--force", action="store_true", help="replace a params.yaml with edits that git does not have")
    _add_params(recipe)

    params = _command(commands, "params", PARAMS, _params)
    params.add_argument("--check", action="store_true", help="only check")
    _add_params(params)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, description: str, run: Run
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=description.splitlines()[0].rstrip("."),
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def _recipe(arguments: argparse.Namespace) -> int:
    from pipeline import recipes

    project = recipes.find_project(Path.cwd())
    if arguments.list:
        found = recipes.list_recipes(project)
        width = max((len(recipe.name) for recipe in found), default=0)
        for recipe in found:
            print(f"{recipe.name:{width}}  {recipe.summary}".rstrip())
        return 0
    if arguments.name is None:
        arguments.parser.error("which recipe? Give its NAME, or see them with --list")
    recipe = recipes.find(arguments.name, project)
    path = _params_path(arguments)
    written = recipes.write(recipe, path, project, force=arguments.force)
    about = f" ({recipe.summary})" if recipe.summary else ""
    print(f"{path} {'is now' if written.changed else 'already was'} the recipe {recipe.name}{about}")
    if written.changed:
        print("Next: dvc repro")
    return 0


def _params(arguments: argparse.Namespace) -> int:
    from pipeline import params, recipes

    path = _params_path(arguments)
    sections = params.load(path)
    if arguments.check:
        print(f"{path}: all {len(sections)} sections are right")
        return 0
    for name, settings in sections.items():
        print(f"{name}:")
        for key, value in recipes.flat(settings.model_dump()).items():
            print(f"  {key}: {value}")
    return 0


def _params_path(arguments: argparse.Namespace) -> Path:
    """The file named by ``--params``, else the project's, spelt briefly."""
    from pipeline.recipes import find_project

    if arguments.params is not None:
        return Path(arguments.params)
    path = find_project(Path.cwd()) / "params.yaml"
    return Path(os.path.relpath(path))


def _add_params(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--params", metavar="FILE", help="the parameter file (default: params.yaml beside dvc.yaml)")


if __name__ == "__main__":
    sys.exit(main())
