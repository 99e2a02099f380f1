"""New projects: a folder with the first pipeline, its recipes, and the code that its stages run; others are added.

A project has the code itself, not a reference to the installed package: DVC hashes the code that a stage runs, git
keeps the code that made a number, and an edit of the code reruns what depends on it. After an upgrade of the package
:func:`update` takes over the new code, and the stages whose code has changed run again.
"""

from __future__ import annotations

import contextlib
import filecmp
import shutil
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import pipeline
import sightword
from pipeline.experiments.clones import run_dvc
from pipeline.lineage.repository import git
from pipeline.params import overlay, recipes, writing
from pipeline.pipelines import DVC_YAML, PARAMS, Pipeline, pipelines, shipped
from sightword.errors import LineageError, SetupError
from sightword.evaluation import ledger
from sightword.io import yaml_reader
from sightword.io.files import atomic_file, read_text, write_text
from sightword.messages import and_more, guess

PACKAGES = ("sightword", "pipeline")
DATA = "pipeline.project"
"""The package of the files of a project in the wheel, by its name in pyproject.toml."""
FIRST = ""
"""The folder of the first pipeline."""
README = "README.md"
IGNORED = (".git", ".venv", "venv")
"""What a folder may have before it becomes a project."""
_CONFIG = "[core]\n    analytics = false\n    autostage = false\n"


class Changes(NamedTuple):
    """The files of a project that :func:`update` has changed, by their paths in the project."""

    new: list[str]
    changed: list[str]
    deleted: list[str]


def create(folder: Path) -> Path:
    """Make a project on the sample in a new or empty folder, and return its absolute path.

    Git and DVC are initialised where they are not there yet. After an error nothing is left.

    Raises:
        SetupError: the folder is not empty, cannot be made, or git or DVC fails.
    """
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise SetupError("is a file", where=folder, expected="a new or an empty folder")
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if others := sorted(held.difference(IGNORED)):
        todo = "Name another folder." if DVC_YAML not in others else "`sightword init --update` renews its code."
        raise SetupError(
            f"is not empty ({and_more(others)})", where=folder, expected="a new or an empty folder", todo=todo
        )
    files = _files([FIRST])
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        root = _git_root(folder) or _git_init(folder)
        run_dvc("init", *(["--subdir"] if root != folder.resolve() else []), folder=folder)
        (folder / ".dvc" / "config").write_text(_CONFIG, encoding="utf-8")
        for name, source in files.items():
            _copy(source, folder / name)
        _begin(folder, FIRST)
        _copy(Path(__file__).with_suffix(".md"), folder / README)
    except BaseException:
        for path in [one for one in folder.glob("*") if one.name not in held]:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for one in made:
            with contextlib.suppress(OSError):
                one.rmdir()
        raise
    return folder


def first_commit(folder: Path) -> bool:
    """Commit a new project, and return whether that was possible.

    The repository must be the project's own and have no commit yet, and git must know the user.
    """
    if _git_root(folder) != folder.resolve():
        return False
    with contextlib.suppress(LineageError):
        git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
        return False
    names = sorted(path.name for path in folder.iterdir() if path.name not in IGNORED)
    with contextlib.suppress(LineageError):
        git(folder, "add", "--", *names)
        git(folder, "commit", "--quiet", "--message", "A new project")
        return True
    return False


def add(project: Path, name: str) -> Pipeline:
    """Add a further pipeline to a project, with its code, its recipes and the parameters of its sample.

    After an error no file is left.

    Raises:
        SetupError: there is no such pipeline, or the project has it, or has other files of the same names.
    """
    further = [one.folder for one in pipelines(shipped()) if one.folder]
    if name not in further:
        raise SetupError(f"there is no such pipeline{guess(name, further)}", where=name, expected=", ".join(further))
    if (project / name / DVC_YAML).exists():
        raise SetupError("the project has it already", where=project / name)
    files = _files([name])
    new = [path for path in files if not (project / path).exists()]
    if taken := [path for path in files if path not in new and not _same(files[path], project / path)]:
        what = f"the pipeline would replace other files: {and_more(taken)}"
        raise SetupError(what, where=project, todo="Rename them.")
    try:
        for path in new:
            _copy(files[path], project / path)
        return _begin(project, name)
    except BaseException:
        for path in new:
            (project / path).unlink(missing_ok=True)
        raise


def _begin(project: Path, name: str) -> Pipeline:
    """Write the parameters of a pipeline's sample (those of a clone may have been edited), and its empty ledger."""
    sys.path.append(str(shipped()))  # the settings are those of the copied stages, also within another project
    own = Pipeline(project, name)
    recipe = recipes.find(f"{name}-sample" if name else "sample", project)
    write_text(project / own.params, writing.text(recipe, shipped()))
    write_text(project / own.ledger, ledger.text([]))
    return own


def update(project: Path) -> Changes:
    """Replace a project's code, recipes and descriptions of pipelines by those that come with this code.

    Parameter files and files of the user's own stay, but for own modules in the packages of :data:`PACKAGES` that git
    does not ignore. Git keeps what is replaced.

    Raises:
        SetupError: this is no project with code, or a clone, or the one with the running code; or it has files that are
            not committed and would be replaced.
    """
    project = project.resolve()
    if project == Path(__file__).resolve().parents[1]:
        what, todo = "the running code is that of this project", "Run the installed program `sightword`."
        raise SetupError(what, where=project, todo=todo)
    if not (project / "stages" / "__main__.py").is_file() or (project / "setup.py").exists():
        what, todo = "was not made by `sightword init`", "A clone is updated by `git pull`."
        raise SetupError(what, where=project, todo=todo)
    seen = {one.ignore for one in pipelines(project) if one.folder}  # a pipeline that runs here has lost this file
    every = _files([one.folder for one in pipelines(project)])
    files = {name: path for name, path in every.items() if Path(name).name != PARAMS and name not in seen}
    found = differences(project, files)
    options = ("--porcelain", "-z", "--no-renames", "--ignored", "--untracked-files=all")
    try:
        ignored = git(project, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", *PACKAGES)
        found = found._replace(deleted=[name for name in found.deleted if name not in ignored.split("\0")])
        replaced = [*found.changed, *found.deleted]
        open_files = git(project, "status", *options, "--", *replaced) if replaced else ""
    except LineageError as error:
        raise SetupError(error.what, where=project, todo="Git must keep the files that are replaced.") from None
    lost = [item[3:] for item in open_files.split("\0") if item]
    if lost:
        what = f"git does not have {and_more(lost)} as they are, and they would be replaced"
        raise SetupError(what, where=project, todo="Commit first: `git add -A . && git commit`.")
    for name in (*found.new, *found.changed):
        with atomic_file(project / name) as temporary:
            shutil.copyfile(files[name], temporary)
    for name in found.deleted:
        (project / name).unlink()
    return found


def differences(project: Path, files: dict[str, Path] | None = None) -> Changes:
    """Compare a project with the code that comes with this one, in the order of :class:`Changes`.

    Args:
        project: the project.
        files: the files to compare, by their paths in a project; None: the code of the stages.
    """
    if files is None:
        every = _files([one.folder for one in pipelines(project)])
        files = {name: path for name, path in every.items() if name.split("/")[0] in (*PACKAGES, "stages")}
    new = [name for name in files if not (project / name).exists()]
    changed = [name for name, path in files.items() if name not in new and not _same(path, project / name)]
    held = [path.relative_to(project).as_posix() for package in PACKAGES for path in _walk(project / package)]
    return Changes(new, changed, [name for name in held if name not in files])


def _same(one: Path, other: Path) -> bool:
    return filecmp.cmp(one, other, shallow=False)


def _files(wanted: Collection[str]) -> dict[str, Path]:
    """Return the files of pipelines, by their paths in a project: those beside the code, and both packages.

    A clone lists the former in its pyproject.toml; the wheel has only them in their folder.

    Raises:
        SetupError: the running code is that of a project, not a clone's or the package's.
    """
    place, listing = shipped(), shipped() / "pyproject.toml"
    if place == Path(__file__).resolve().with_name("project"):
        patterns = ["**/*"]
    elif listing.is_file():
        patterns = tomllib.loads(listing.read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"][DATA]
    else:
        what = "the running code is that of a project, which cannot make others"
        raise SetupError(what, where=place, todo="Run the installed program `sightword`.")
    beside = [path for pattern in patterns for path in sorted(place.glob(pattern)) if _is_source(path)]
    found = {path.relative_to(place).as_posix(): path for path in beside}
    for package in (Path(one.__path__[0]).resolve() for one in (sightword, pipeline)):
        own = [path for path in _walk(package) if path not in beside]
        found |= {f"{package.name}/{path.relative_to(package).as_posix()}": path for path in own}
    further = [one.folder for one in pipelines(place) if one.folder]
    return {name: path for name, path in found.items() if _pipeline_of(name, path, further, place) in wanted}


def _pipeline_of(name: str, path: Path, further: Collection[str], place: Path) -> str:
    """Return the folder of the pipeline of a file: of a recipe, or of a file in a folder of this name."""
    folders = name.split("/")[:-1]
    if folders != ["recipes"]:
        return next((one for one in further if one in folders), FIRST)
    if recipes.is_grid(path):
        values = yaml_reader.parse(read_text(path), path)
        if "base" not in values:
            return str(values.get("pipeline", FIRST))
        path = recipes.find(str(values["base"]), place).path
    return overlay.pipeline_of(recipes.find(str(path), place), place).folder


def _walk(package: Path) -> list[Path]:
    """Return the files of a package."""
    return sorted(filter(_is_source, package.rglob("*")))


def _is_source(path: Path) -> bool:
    """Return whether a path is a file that Python did not leave beside the code."""
    return path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".tmp", ".old")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _git_root(folder: Path) -> Path | None:
    """Return the folder of the git repository around a folder; None where there is none."""
    with contextlib.suppress(LineageError):
        return Path(git(folder, "rev-parse", "--show-toplevel").rstrip("\n")).resolve()
    return None


def _git_init(folder: Path) -> Path:
    try:
        git(folder, "init", "--quiet")
    except LineageError as error:
        raise SetupError(error.what, where=folder, todo="Install git: DVC and the audit of results need it.") from None
    return folder.resolve()
