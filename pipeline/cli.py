"""The command ``sightword``: what a person does beside ``dvc``.

Everything heavy is imported by the command that needs it, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import __version__
from pipeline.errors import SightwordError, StoreError

if TYPE_CHECKING:
    from pipeline.features.store import Store
    from pipeline.features.upkeep import Kind

Run = Callable[[argparse.Namespace], int]

RECIPE = """\
Write params.yaml whole from a recipe, with its comments.

A recipe is a complete set of parameters, such as the published ones. From there,
edit params.yaml, or let `dvc exp run -S section.key=value` do it."""

PARAMS = """\
Check params.yaml, and print what the stages will use, section by section."""

EXPERIMENTS = """\
Show experiments with the mean and standard deviation over their seeds.

Experiments that differ by train.seed only are one row: what was varied, how
many runs, and each metric as mean ± sample standard deviation (none for a
single run). It runs `dvc exp show --json`, or reads what that has printed."""

STORE = """\
Look after the store of computed features: stats, verify, prune.

The store remembers each feature that was ever computed, for all projects and
machines that share the folder; SIGHTWORD_STORE names it."""

STATS = """\
Show the kinds of features in the store: how many, how large, last used."""

VERIFY = """\
Read every feature of the store and compare its checksum.

Exits with 1 when something is damaged. Runs leave damaged features out and
compute them again; prune takes them away."""

PRUNE = """\
Remove what is not wanted from the store, and put the rest in order.

Without options it removes damaged features and what killed processes left a day
ago or more, and merges small files into large ones. With --remove or --unused
it also removes whole kinds of features. Others may use the store meanwhile: what
they miss they compute anew."""


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

    experiments = _command(commands, "experiments", EXPERIMENTS, _experiments)
    experiments.add_argument("file", metavar="FILE", nargs="?", help="output of `dvc exp show --json`; - reads a pipe")
    experiments.add_argument(
        "--metric",
        metavar="REGEX",
        action="append",
        default=[],
        help="the metrics whose whole name matches, from any file; may be given again (default: metrics/summary.json)",
    )
    experiments.add_argument("--over", metavar="PARAM", default="train.seed", help="what may differ (%(default)s)")
    layout = experiments.add_mutually_exclusive_group()
    layout.add_argument("--md", action="store_true", help="a Markdown table")
    layout.add_argument("--csv", action="store_true", help="CSV with all digits, deviations in columns of their own")

    store = _command(commands, "store", STORE, _store)
    actions = store.add_subparsers(title="commands", metavar="COMMAND")
    for name, description, run in (("stats", STATS, _stats), ("verify", VERIFY, _verify), ("prune", PRUNE, _prune)):
        action = _command(actions, name, description, run)
        action.add_argument("--store", metavar="FOLDER", help="the store (default: SIGHTWORD_STORE, else in the cache)")
        if name != "prune":
            action.add_argument("--kind", metavar="NAME", default="", help="only the kinds whose name begins so")
    action.add_argument("--remove", metavar="NAME", default="", help="remove the one kind whose name begins so")
    action.add_argument("--unused", metavar="DAYS", type=float, help="remove kinds that were not used for DAYS days")
    action.add_argument("--dry-run", action="store_true", help="only say what would be done")
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


def _experiments(arguments: argparse.Namespace) -> int:
    from pipeline import experiments

    listing = experiments.read(_exp_show(arguments.file))
    if listing.experiments:
        found = experiments.groups(listing.experiments, arguments.metric, over=arguments.over)
        lines = experiments.table(found, exact=arguments.csv)
        layout = (
            experiments.to_csv if arguments.csv else experiments.to_markdown if arguments.md else experiments.to_text
        )
        print(layout(lines))
    else:
        print("no experiment has results yet", file=sys.stderr)
    if listing.left_out:
        print(f"left out: {', '.join(listing.left_out)}", file=sys.stderr)
    return 0


def _exp_show(name: str | None) -> Any:
    """What ``dvc exp show --json`` says: read from a file or a pipe, or asked here."""
    import json
    import subprocess

    from pipeline.errors import FileFormatError, SetupError
    from pipeline.files import read_json

    if name not in (None, "-"):
        return read_json(name)
    if name is None:
        command = [sys.executable, "-m", "dvc", "exp", "show", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise SetupError(f"dvc exp show failed: {said[-1].removeprefix('ERROR: ')}", where=Path.cwd())
        text = done.stdout
    else:
        text = sys.stdin.read()
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FileFormatError(f"is not valid JSON ({error.msg})", where="standard input") from None


def _store(arguments: argparse.Namespace) -> int:
    arguments.parser.error("which command? stats, verify or prune")
    return 2


def _stats(arguments: argparse.Namespace) -> int:
    from pipeline.features import upkeep

    store = _open_store(arguments)
    print(f"{store.folder}")
    for kind in upkeep.survey(store, arguments.kind):
        _print_kind(kind)
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from pipeline.features import upkeep

    store = _open_store(arguments)
    sound = damaged = 0
    for kind in upkeep.survey(store, arguments.kind):
        sound += kind.features
        damaged += len(kind.damaged)
        for what in kind.damaged:
            print(f"damaged: {what}")
    print(f"{store.folder}: {sound} features are sound, {damaged} places are damaged")
    return 1 if damaged else 0


def _prune(arguments: argparse.Namespace) -> int:
    from pipeline.features import upkeep

    store = _open_store(arguments)
    if arguments.unused is not None and arguments.unused < 0:
        arguments.parser.error("--unused DAYS cannot be below 0")
    done = upkeep.prune(store, remove=arguments.remove, unused_days=arguments.unused, dry_run=arguments.dry_run)
    print(
        f"{store.folder}: {'would remove' if arguments.dry_run else 'removed'} {done.kinds} kinds and "
        f"{done.leftovers} leftovers, {'would merge' if arguments.dry_run else 'merged'} {done.segments} segments"
        + ("" if arguments.dry_run else f"; {_size(done.bytes)} freed")
    )
    return 0


def _open_store(arguments: argparse.Namespace) -> Store:
    from pipeline import machine
    from pipeline.features.store import Store

    folder = Path(arguments.store) if arguments.store else machine.current().store
    store = Store(folder)
    if not store.kinds.is_dir():
        raise StoreError("there is no store here", where=folder, todo="The stage features makes it at its first run.")
    return store


def _print_kind(kind: Kind) -> None:
    import datetime as dt

    identity = kind.identity
    transform = identity.get("transform", {})
    used = dt.datetime.fromtimestamp(kind.used).astimezone()
    print(f"\n{kind.name}")
    if identity:
        weights = identity["weights_sha256"][:12]
        print(f"  {identity['backbone']} {identity['feature_point']}, weights {weights}, {identity['precision']}, "
              f"{identity['kernel']}")  # fmt: skip
        after = [name for name, on in (("ReLU", transform["relu"]), ("L2", transform["l2"])) if on]
        print(f"  smaller side {transform['resize']} ({transform['interpolation']}), {transform['crops']} crop(s) of "
              f"{transform['crop']}{''.join(f', {name}' for name in after)}")  # fmt: skip
    print(f"  {kind.features} features in {kind.segments} segments, {_size(kind.bytes)}, last used {used:%Y-%m-%d}")
    if kind.damaged:
        print(f"  {len(kind.damaged)} places are damaged: see `sightword store verify`")


def _size(count: int) -> str:
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


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
