"""New projects: a folder with the first pipeline, its parameters and raw data; further pipelines are added.

A project has no copy of the code. It runs the installed program, and its ``dvc.yaml`` names lists of the program's
files with their hashes (:mod:`pipeline.lineage.code_lists`). After an upgrade of the package :func:`renew` writes the
lists anew, and `dvc repro` runs the stages whose code has changed.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.lineage import code_lists
from pipeline.lineage.lock import LISTS, is_code, within
from pipeline.lineage.repository import git
from pipeline.params import recipes, writing
from pipeline.pipelines import DVC_YAML, PARAMS, Pipeline, pipelines, run_dvc, shipped
from sightword.errors import LineageError, SetupError, SightwordError
from sightword.evaluation import ledger
from sightword.io.files import atomic_file, read_text, write_text
from sightword.messages import and_more, guess

DATA = "pipeline.project"
"""The package of the files of a project in the wheel, by its name in pyproject.toml."""
FIRST = ""
"""The folder of the first pipeline."""
README = "README.md"
IGNORED = (".git", ".venv", "venv")
"""What a folder may have before it becomes a project."""
RAW = "data/raw"
OWN = f"{RAW}/own"
"""The corpus of one's own, a link."""
PAIRS = f"{RAW}/senteval"
"""The folder of sentence pairs."""
_KEPT = "recipes/"
"""What the program reads where it is installed."""
_CONFIG = "[core]\n    analytics = false\n    autostage = false\n"
_STAGE = re.compile(r"  (\w+):\n")
_DEPENDENCY = re.compile(r"( +- )(\S+)\n")


class Changes(NamedTuple):
    """The files of a project that :func:`renew` has changed, by their paths in the project."""

    new: list[str]
    changed: list[str]
    deleted: list[str]


def create(folder: Path, source: Path | None = None, columns: Sequence[str] = ()) -> tuple[Path, list[str]]:
    """Make a project in a new or empty folder, and return its absolute path and what ``source`` holds, in sentences.

    ``source`` is a folder with pictures and captions, or a file of it, to which :data:`OWN` becomes a link; None: the
    sample. ``columns`` as in :func:`pipeline.params.writing.of_corpus`. After an error nothing is left.

    Raises:
        SetupError: the folder is not empty, cannot be made, or git or DVC fails.
        SightwordError: ``source`` does not exist, or holds no corpus that can be read.
    """
    folder = folder.absolute()
    if source is not None and not source.exists():
        listing = "`sightword fetch ADDRESS --to FILE.csv` lists a bucket; put the list into the folder of captions."
        todo = listing if ":/" in str(source) else None  # of an address a path keeps one stroke
        raise SetupError("does not exist", where=source, expected="a folder with pictures and captions", todo=todo)
    if folder.exists() and not folder.is_dir():
        raise SetupError("is a file", where=folder, expected="a new or an empty folder")
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if others := sorted(held.difference(IGNORED)):
        raise SetupError(f"is not empty ({and_more(others)})", where=folder, expected="a new or an empty folder")
    files = _files(FIRST)
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (root := _git_root(folder)) is None:
            git(folder, "init", "--quiet")
            root = folder.resolve()
        run_dvc("init", *(["--subdir"] if root != folder.resolve() else []), folder=folder)
        (folder / ".dvc" / "config").write_text(_CONFIG, encoding="utf-8")
        _write(folder, files)
        _begin(folder, FIRST)
        write_text(folder / README, read_text(Path(__file__).with_suffix(".md")))
        words = [] if source is None else _link(folder, source, columns)
    except BaseException:
        with contextlib.suppress(LineageError, OSError):
            git(folder, "reset", "--quiet", "--", ".")  # DVC has added files to the repository around the project
        for path in [one for one in folder.glob("*") if one.name not in held]:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for one in made:
            with contextlib.suppress(OSError):
                one.rmdir()
        raise
    return folder, words


def _link(folder: Path, source: Path, columns: Sequence[str]) -> list[str]:
    """Link a corpus into a new project, write the parameters for it, and return what was found."""
    link, source = folder / OWN, source.resolve()
    above = source if source.is_dir() else source.parent
    if folder.resolve().is_relative_to(above):
        raise SetupError("holds the new project", where=above, todo="Make the project elsewhere.")
    link.symlink_to(above)
    with tempfile.TemporaryDirectory() as temporary:
        inner = link / source.relative_to(above)
        try:
            base, to = recipes.find("own", folder), Path(temporary) / "own.yaml"
            recipe, words = writing.of_corpus(base, inner, folder, to, columns)
        except SightwordError as error:
            error.args = (str(error).replace(OWN, str(above)),)  # the link goes with the project
            raise
        writing.write(recipe, folder / PARAMS, folder, force=True)
    write_text(folder / PAIRS / "downstream" / README, "`sightword fetch senteval` puts sentence pairs here.\n")
    run_dvc("add", "--quiet", PAIRS, folder=folder)  # the stages read the folder before pairs are in it
    git(folder, "add", "--force", "--", OWN)  # experiments see only what git or DVC tracks; DVC adds no links
    return words


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
    """Add a further pipeline to a project, with the parameters of its sample; after an error no file is left.

    Raises:
        SetupError: there is no such pipeline, or the project has it, or has other files of the same names.
    """
    further = [one.folder for one in pipelines(shipped()) if one.folder]
    if name not in further:
        raise SetupError(f"there is no such pipeline{guess(name, further)}", where=name, expected=", ".join(further))
    if (project / name / DVC_YAML).exists():
        raise SetupError("the project has it already", where=project / name)
    files = _files(name)
    new = {path: content for path, content in files.items() if not (project / path).exists()}
    if taken := [path for path in files if path not in new and files[path] != (project / path).read_bytes()]:
        what = f"the pipeline would replace other files: {and_more(taken)}"
        raise SetupError(what, where=project, todo="Rename them.")
    try:
        _write(project, new)
        return _begin(project, name)
    except BaseException:
        for path in new:
            (project / path).unlink(missing_ok=True)
        raise


def _begin(project: Path, name: str) -> Pipeline:
    """Write the parameters of a pipeline's sample (those of a clone may have been edited), and its empty ledger."""
    own = Pipeline(project, name)
    recipe = recipes.find(f"{name}-sample" if name else "sample", project)
    write_text(project / own.params, writing.text(recipe, project))
    write_text(project / own.ledger, ledger.text([]))
    return own


def renew(project: Path) -> Changes:
    """Replace a project's lists of code, and its descriptions of pipelines, by those of the running program.

    Raises:
        SetupError: the project was not made by :func:`create`, or an edit that git does not have would be lost.
    """
    project = project.resolve()
    if not (project / LISTS).is_dir():
        what, todo = "was not made by `sightword init`", "A clone runs its own code: `git pull` updates it."
        raise SetupError(what, where=project, todo=todo)
    files: dict[str, bytes] = {}
    for one in pipelines(project):
        with contextlib.suppress(SetupError):  # a pipeline of the user's own
            files |= {
                name: content for name, content in _files(one.folder).items()
                if code_lists.is_list(name) or Path(name).name == DVC_YAML or within(name, ".dvc")
            }  # fmt: skip
    held = {path.relative_to(project).as_posix() for path in (project / LISTS).rglob(f"*{code_lists.SUFFIX}")}
    new = [name for name in files if not (project / name).exists()]
    changed = [name for name in files if name not in new and files[name] != (project / name).read_bytes()]
    found = Changes(new, changed, sorted(held - files.keys()))
    replaced = [*found.changed, *found.deleted]
    options = ("--porcelain", "-z", "--no-renames", "--ignored", "--untracked-files=all")
    open_files = git(project, "status", *options, "--", *replaced) if replaced else ""
    if lost := [item[3:] for item in open_files.split("\0") if item]:
        todo = "Commit first: `git add -A . && git commit`."
        raise SetupError(f"has edits that would be lost: {and_more(lost)}", where=project, todo=todo)
    _write(project, {name: files[name] for name in (*found.new, *found.changed)})
    for name in found.deleted:
        (project / name).unlink()
    return found


def _files(wanted: str) -> dict[str, bytes]:
    """Return the files of the pipeline in a folder by their paths in a project, without its parameters.

    A clone lists the files in its pyproject.toml; the wheel has only them. SetupError for an unknown pipeline.
    """
    place, listing = shipped(), shipped() / "pyproject.toml"
    patterns = ["**/*"]
    if listing.is_file():
        patterns = tomllib.loads(listing.read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"][DATA]
    every = {one.folder: one for one in pipelines(place)}
    if wanted not in every:
        raise SetupError("no such pipeline comes with the program", where=wanted, expected=", ".join(every))
    beside = (path for pattern in patterns for path in sorted(place.glob(pattern)) if path.is_file())
    names = [name for path in beside if not (name := path.relative_to(place).as_posix()).startswith(_KEPT)]
    own = [name for name in names if Path(name).name != PARAMS and wanted in _owners(name, every)]
    found = {name: (place / name).read_bytes() for name in own}
    pipeline = every[wanted]
    for stage in pipeline.stages:
        path = code_lists.path_of(wanted, stage)
        found[path] = code_lists.text(code_lists.installed(path)).encode()
    return found | {pipeline.dvc_yaml: _with_lists(read_text(place / pipeline.dvc_yaml), wanted).encode()}


def _owners(name: str, every: Mapping[str, Pipeline]) -> list[str]:
    """Return the folders of the pipelines of a file; what the first one has is not of the others."""
    folders = name.split("/")[:-1]
    if name.startswith(f"{RAW}/"):
        found = [one.folder for one in every.values() if "/".join(folders) in _raw(one) or folders[-1] in one.stages]
    else:
        found = [folder for folder in every if folder in folders]
    return [FIRST] if FIRST in found or not found else found


def _raw(pipeline: Pipeline) -> list[str]:
    """Return the folders of raw data that are named after a pipeline, or in its description or parameters."""
    texts = (read_text(pipeline.project / path) for path in (pipeline.dvc_yaml, pipeline.params))
    return [f"{RAW}/{pipeline.folder}", *(found for text in texts for found in re.findall(rf"{RAW}/\w+", text))]


def _with_lists(description: str, folder: str) -> str:
    """Return the text of a ``dvc.yaml`` that names, in place of the code of each stage, the list of the code."""
    lines: list[str] = []
    stage = ""
    for line in description.splitlines(keepends=True):
        if found := _STAGE.fullmatch(line):
            stage = found[1]
        if (found := _DEPENDENCY.fullmatch(line)) and is_code(found[2]):
            line = f"{found[1]}{code_lists.path_of(folder, stage)}\n"
            if line in lines:
                continue
        lines.append(line)
    return "".join(lines)


def _write(project: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        with atomic_file(project / name) as temporary:
            temporary.write_bytes(content)


def _git_root(folder: Path) -> Path | None:
    """Return the folder of the git repository around a folder; None where there is none."""
    with contextlib.suppress(LineageError):
        return Path(git(folder, "rev-parse", "--show-toplevel").rstrip("\n")).resolve()
    return None
