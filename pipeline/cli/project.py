"""The commands that look after a project's parameters and experiments."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.command import Commands, add_column, add_command, add_layout, laid_out, refuse

if TYPE_CHECKING:
    from pipeline.experiments.results import Group

RECIPE = """\
Write params.yaml whole from a recipe, with a comment for each parameter.

A recipe names another one as its base, and the parameters that differ; without
a base, those that differ from the published values. `pipeline` names
another pipeline than the first. --from looks at a folder with pictures and
captions, or at a file, and writes the section corpus for it. From there, edit
params.yaml, or let `dvc exp run -S section.key=value` do it."""

PARAMS = """\
Check the params.yaml of each pipeline, and print what the stages will use, section by section."""

EXPERIMENTS = """\
Show experiments with the mean and standard deviation over their seeds.

Experiments that differ by the seed only (train.seed, or that of the pipeline
whose parameters were varied) are one row: what was varied, how many runs, and
each metric as mean ± sample standard deviation (none for a single run). What
is equal in all rows, paths and lists have no column, and the table fits 120
letters or a wider terminal; --csv has all columns. The command runs
`dvc exp show --json`, or reads its output, and reads other metrics from git."""


_FIRST = "first pipeline"
_LIST_WIDTH = 80
"""The letters of a line of ``recipe --list``."""


def add(commands: Commands) -> None:
    """Add ``recipe``, ``params`` and ``experiments``."""
    recipe = add_command(commands, "recipe", RECIPE, _recipe)
    recipe.add_argument("name", metavar="NAME", nargs="?", help="a recipe's name, or the path of a file")
    recipe.add_argument("--list", action="store_true", help="show the recipes, what each needs, and its time")
    recipe.add_argument("--force", action="store_true", help="replace a params.yaml with edits that git does not have")

    own = "what to train on, in the project: a folder or a file with captions, such as data/raw/own"
    recipe.add_argument("--from", metavar="PATH", dest="source", type=Path, help=own)
    add_column(recipe)

    params = add_command(commands, "params", PARAMS, _params)
    params.add_argument("--check", action="store_true", help="only check")
    explain = "what a parameter means and may be, such as train.margin; or a whole section"
    params.add_argument("--explain", metavar="NAME", help=explain)
    file = "the parameter file (default: params.yaml beside dvc.yaml)"
    for parser in (recipe, params):
        parser.add_argument("--params", metavar="FILE", help=file)

    experiments = add_command(commands, "experiments", EXPERIMENTS, _experiments)
    experiments.add_argument("file", metavar="FILE", nargs="?", help="output of `dvc exp show --json`; - reads a pipe")
    metric = (
        "the metrics whose whole name matches, from any file; may be given again (default: the pipeline's summary.json)"
    )
    only = "experiments whose whole name matches, such as those of one sweep: 'figure2-.*'"
    plot = "draw the scores as well, as Figure 2 of Merkx & Frank (2019); .svg or .png"
    against = "with --plot: the parameter along the x axis (default: of those with numbers, the one with most values)"
    experiments.add_argument("--metric", metavar="REGEX", action="append", default=[], help=metric)
    experiments.add_argument(
        "--over", metavar="PARAM", default="", help="what may differ (default: the pipeline's seed)"
    )
    experiments.add_argument("--only", metavar="REGEX", help=only)
    experiments.add_argument("--plot", metavar="FILE", type=Path, help=plot)
    experiments.add_argument("--against", metavar="PARAM", default="", help=against)
    add_layout(experiments, csv="CSV with all digits, deviations in columns of their own")


def _recipe(arguments: argparse.Namespace) -> int:
    import tempfile

    from pipeline.params import overlay, own, recipes, writing
    from pipeline.pipelines import find_project, project_of

    if arguments.name is None and not arguments.list:
        arguments.parser.error("which recipe? Give its NAME, or see them with --list")
    refuse(
        arguments,
        (arguments.list and arguments.source is not None, "--list and --from cannot be combined"),
        (arguments.column and arguments.source is None, "--column goes with --from"),
    )
    elsewhere = arguments.list or arguments.params is not None
    project = (project_of if elsewhere else find_project)(Path.cwd())
    if arguments.list:
        return _list_recipes(project)
    recipe = recipes.find(arguments.name, project)
    pipeline = overlay.resolve(recipe, project).pipeline
    further = arguments.source is not None and pipeline.folder != ""
    refuse(arguments, (further, f"--from: {recipe.name} has no section corpus; name a recipe of the first pipeline"))
    if arguments.params is None:
        overlay.check_added(pipeline, project)
    path = Path(arguments.params) if arguments.params else _short(project / pipeline.params)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.source:
            to = Path(folder) / "own.yaml"
            recipe, words = own.of_corpus(recipe, arguments.source, project, to, arguments.column)
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

    found = recipes.list_recipes(project)
    width = max(len(name) for name in (_FIRST, *(recipe.name for recipe in found)))
    groups: dict[str, list[str]] = {}
    for recipe in found:
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


def _params(arguments: argparse.Namespace) -> int:
    from pipeline.params import params_file, writing
    from sightword.messages import flat

    if arguments.explain:
        return _explain(arguments.explain)
    for path in _params_paths(arguments):
        sections = params_file.load(path)
        if arguments.check:
            print(f"{path}: all {len(sections)} sections are right")
            continue
        for name, settings in sections.items():
            print(f"{name}:")
            for key, value in flat(settings.model_dump()).items():
                print(f"  {key}: {writing.spelt(value)}")
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


def _experiments(arguments: argparse.Namespace) -> int:
    other = arguments.plot is not None and arguments.plot.suffix not in (".svg", ".png")
    alone = arguments.against and arguments.plot is None
    refuse(arguments, (other, "--plot FILE must end with .svg or .png"), (alone, "--against goes with --plot"))
    from pipeline.experiments import results
    from pipeline.lineage.evidence import facts_folders
    from pipeline.pipelines import find_project

    project = find_project(Path.cwd()) if arguments.file is None else None
    listing = results.read(_exp_show(arguments.file), project, facts_folders(project) if project else ())
    if arguments.only is not None:
        listing = results.only(listing, arguments.only)
    found = results.groups(listing.experiments, arguments.metric, over=arguments.over) if listing.experiments else []
    if found:
        print_groups(arguments, found)
        if arguments.plot is not None:
            _plot(arguments, found)
    else:
        print("no experiment has results yet", file=sys.stderr)
    if left_out := results.left_out(listing, found):
        print(f"left out: {', '.join(left_out)}", file=sys.stderr)
    for note in results.notes(listing):
        print(f"note: {note}", file=sys.stderr)
    return 0


def print_groups(arguments: argparse.Namespace, found: list[Group]) -> None:
    """Print the table of experiments in the layout of the options; as text, no wider than a terminal."""
    import shutil

    from pipeline.experiments import layout

    if arguments.csv:
        print(laid_out(arguments, layout.table(found, exact=True)))
        return
    width = None if arguments.md else max(layout.WIDTH, shutil.get_terminal_size((layout.WIDTH, 0)).columns)
    lines, left_out = layout.readable(found, width, asked=bool(arguments.metric))
    print(laid_out(arguments, lines))
    if left_out:
        print(f"no room for {', '.join(left_out)}: --md and --csv have them", file=sys.stderr)


def _plot(arguments: argparse.Namespace, found: list[Group]) -> None:
    from pipeline.experiments import results
    from pipeline.experiments.figure import grid
    from sightword.io.files import atomic_file

    x, panels = results.series(found, against=arguments.against)
    if not arguments.metric:
        panels = {name: panels[name] for name in results.DRAWN if name in panels} or panels
    drawing = grid(panels, xlabel=x)
    with atomic_file(arguments.plot) as path:
        path.write_bytes(drawing.svg().encode() if arguments.plot.suffix == ".svg" else drawing.png())
    print(f"{arguments.plot}: {', '.join(panels)} over {x}", file=sys.stderr)


def _exp_show(name: str | None) -> Any:
    """Return the values of ``dvc exp show --json``: from a file or a pipe, or from DVC itself."""
    import json

    from pipeline.experiments.clones import run_dvc
    from sightword.errors import FileFormatError
    from sightword.io.files import read_json

    if name not in (None, "-"):
        return read_json(name)
    text = sys.stdin.read() if name else run_dvc("exp", "show", "--json", folder=Path.cwd())
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FileFormatError(f"is not valid JSON ({error.msg})", where="standard input") from None


def _params_paths(arguments: argparse.Namespace) -> list[Path]:
    """Return the file named by ``--params``, or else the files of all pipelines, relative to the current folder."""
    from pipeline.pipelines import find_project, pipelines

    if arguments.params is not None:
        return [Path(arguments.params)]
    project = find_project(Path.cwd())
    return [_short(project / pipeline.params) for pipeline in pipelines(project)]


def _short(path: Path) -> Path:
    return Path(os.path.relpath(path))
