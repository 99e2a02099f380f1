"""The pipelines of a project: that of its own folder, and one for each folder directly below with a ``dvc.yaml``.

Each pipeline has a ``dvc.yaml``, a ``params.yaml`` and a ``dvc.lock`` of its own. Every stage of a pipeline in a folder
has ``wdir: ..``: its command runs in the project's folder, and all paths in its ``dvc.lock`` are from there. So the
entries of all locks form one graph. A stage's name is unique within its pipeline, and its address over all pipelines:
DVC's own from the project's folder, ``train`` in the first pipeline and ``hypernyms/dvc.yaml:train`` in a further one.

Git has a ``.dvcignore`` in the folder of a pipeline that has not run, by which DVC ignores it: a stage whose
outputs nobody has would end `dvc checkout`, `dvc pull` and `dvc exp apply` with an error. The first run removes the
file, and its lock goes to git with the user's commit.

A stage with a ``matrix`` runs once for each item: the stage ``train`` has the entries ``train@t-0``, ``train@cg-0``
and so on in ``dvc.lock``. :attr:`Pipeline.stages` are the stages of the file, by name; :meth:`Pipeline.runs` are those
of the lock, by address.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightword.errors import FileFormatError, SetupError
from sightword.evaluation import ledger
from sightword.io import yaml_reader
from sightword.io.files import read_text
from sightword.messages import last_line

DVC_YAML, PARAMS, LOCK = "dvc.yaml", "params.yaml", "dvc.lock"
IGNORE = ".dvcignore"
LEDGER = ledger.FILE
LOCKS = (LOCK, f":(glob)*/{LOCK}")
"""The locks of all pipelines, as git's pathspecs."""
MATRIX, ITEM = "matrix", "@"
"""The key of a stage that runs once for each item; the sign between stage and item in the name of an entry."""
_VALUE = re.compile(r"\$\{([^}]+)\}")
_OF_ITEM = re.compile(r"\$\{item\.([^}]+)\}")


@dataclass(frozen=True)
class Pipeline:
    """One pipeline, with the paths of its files from the project's folder."""

    project: Path
    folder: str = ""
    """The name of its folder; empty for the project's own."""
    dvc_yaml: str = field(init=False, compare=False)
    params: str = field(init=False, compare=False)
    lock: str = field(init=False, compare=False)
    ignore: str = field(init=False, compare=False)
    """The file by which DVC ignores a further pipeline that has not run."""
    ledger: str = field(init=False, compare=False)
    """The file of its scorings, which git keeps beside its numbers."""

    def __post_init__(self) -> None:
        below = f"{self.folder}/" if self.folder else ""
        for name, file in (("dvc_yaml", DVC_YAML), ("params", PARAMS), ("lock", LOCK), ("ignore", IGNORE)):
            object.__setattr__(self, name, f"{below}{file}")
        object.__setattr__(self, "ledger", f"metrics/{below}{LEDGER}")

    @property
    def hidden(self) -> bool:
        """Whether DVC ignores the pipeline."""
        return bool(self.folder) and (self.project / self.ignore).exists()

    @property
    def has_run(self) -> bool:
        """Whether the pipeline has a lock."""
        return (self.project / self.lock).exists()

    @property
    def command(self) -> str:
        """The shell command that runs the pipeline."""
        run = f"dvc repro {self.dvc_yaml}" if self.folder else "dvc repro"
        return f"rm {self.ignore} && {run}" if self.hidden else run

    def address(self, stage: str) -> str:
        """Return DVC's address of a stage or entry, from the project's folder."""
        return f"{self.dvc_yaml}:{stage}" if self.folder else stage

    def full_name(self, parameter: str) -> str:
        """Return DVC's name of a parameter: ``train.seed``, or ``hypernyms/params.yaml:train.seed``."""
        return full_name(self.params, parameter)

    @functools.cached_property
    def document(self) -> Mapping[str, Any]:
        """The whole ``dvc.yaml``; a FileFormatError where it is absent or invalid, or a stage lacks ``wdir: ..``."""
        return _document(read_text(self.project / self.dvc_yaml), self.dvc_yaml, self.folder)

    @property
    def stages(self) -> Mapping[str, Mapping[str, Any]]:
        """The description of each stage, in the file's order; errors are those of :attr:`document`."""
        stages: Mapping[str, Mapping[str, Any]] = self.document["stages"]
        return stages

    def runs(self) -> dict[str, Mapping[str, Any]]:
        """Return the description of each run by its address, with the items of :func:`expanded`.

        Raises:
            FileFormatError: as :attr:`document`; or a stage has a matrix, and the items cannot be read.
        """
        with_items = any(MATRIX in stage for stage in self.stages.values())
        values = yaml_reader.parse(read_text(self.project / self.params), self.params) if with_items else {}
        return {self.address(name): one for name, one in expanded(self.stages, values, self.dvc_yaml).items()}


@functools.lru_cache
def _document(text: str, where: str, folder: str) -> Mapping[str, Any]:
    """Return a checked ``dvc.yaml``; a text is parsed once, since many pipelines are made in a process."""
    document = yaml_reader.parse(text, where)
    stages = document.get("stages") if isinstance(document, Mapping) else None
    if not isinstance(stages, Mapping) or not all(isinstance(one, Mapping) for one in stages.values()):
        raise FileFormatError("has no stages", where=where, todo=f"`git checkout -- {where}`")
    for name, stage in stages.items():
        if folder and stage.get("wdir") != "..":
            place = f"{where}: {name}"
            raise FileFormatError("does not run in the project's folder", where=place, expected="wdir: ..")
    return dict(document)


def stage_of(entry: str) -> str:
    """Return the stage of an entry: ``train`` of ``train@cg-0``, both with or without the pipeline before a colon."""
    pipeline, colon, name = entry.rpartition(":")
    return f"{pipeline}{colon}{name.partition(ITEM)[0]}"


def folder_of(address: str) -> str:
    """Return the folder of the pipeline of a stage's address or a parameter's full name; empty for the first one."""
    return address.rpartition(":")[0].rpartition("/")[0]


def full_name(file: str, parameter: str) -> str:
    """Return DVC's name of a parameter in a file: with the file, unless that is the project's own ``params.yaml``."""
    return parameter if file == PARAMS else f"{file}:{parameter}"


def parameter(values: Any, name: str, *default: Any) -> Any:
    """Return a value in nested mappings by its full name, such as ``train.scenarios.cg``.

    Without such a value, return ``default``, or raise KeyError where none is given.
    """
    for part in name.split("."):
        if not isinstance(values, Mapping) or part not in values:
            if default:
                return default[0]
            raise KeyError(name)
        values = values[part]
    return values


def expanded(stages: Mapping[str, Mapping[str, Any]], params: Any, where: str) -> dict[str, Mapping[str, Any]]:
    """Return stages with one entry for each item of a matrix, named as DVC names it; its texts have the item's values.

    ``params`` has the lists of the items; messages name the file ``where``. FileFormatError for a matrix without them.
    """
    runs: dict[str, Mapping[str, Any]] = {}
    for name, stage in stages.items():
        if MATRIX not in stage:
            runs[name] = stage
            continue
        axes = {key: _axis(axis, params, f"{where}: {name}.{MATRIX}.{key}") for key, axis in stage[MATRIX].items()}
        template = {key: value for key, value in stage.items() if key != MATRIX}
        for values in itertools.product(*axes.values()):
            runs[f"{name}{ITEM}{'-'.join(values)}"] = _filled(template, dict(zip(axes, values, strict=True)))
    return runs


def _axis(axis: Any, params: Any, where: str) -> list[str]:
    """Return the values along one side of a matrix, as DVC spells them: a list, or the parameter that has the list."""
    named = _VALUE.fullmatch(axis) if isinstance(axis, str) else None
    with contextlib.suppress(KeyError):
        axis = parameter(params, named[1]) if named else axis
    if not isinstance(axis, list) or not all(isinstance(one, str | int | float) for one in axis):
        raise FileFormatError("has no items", where=where, expected="a list of names or numbers, or ${its.parameter}")
    return [str(one).lower() if isinstance(one, bool) else str(one) for one in axis]


def _filled(value: Any, item: Mapping[str, str]) -> Any:
    """Return a description with the values of an item in its texts."""
    if isinstance(value, Mapping):
        return {_filled(key, item): _filled(one, item) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, item) for one in value]
    return _OF_ITEM.sub(lambda match: item.get(match[1], match[0]), value) if isinstance(value, str) else value


def find_project(start: Path) -> Path:
    """Return the nearest folder with ``dvc.yaml`` and ``.dvc``, itself or above; without ``.dvc``, with ``dvc.yaml``.

    Raises:
        SetupError: there is none.
    """
    above = [folder for folder in (start.absolute(), *start.absolute().parents) if (folder / DVC_YAML).is_file()]
    if above:
        return next((folder for folder in above if (folder / ".dvc").is_dir()), above[0])
    todo = "Go to your project, or make one with `sightword init FOLDER`."
    raise SetupError("this command needs a project, and there is none here or above", where=start.absolute(), todo=todo)


def project_of(start: Path) -> Path:
    """Return the project of a folder, else of the current folder, else the files of a project that come with the code.

    With the latter, recipes and parameters are known outside of a project too.
    """
    for folder in (start, Path.cwd()):
        with contextlib.suppress(SetupError):
            return find_project(folder)
    return shipped()


def shipped() -> Path:
    """Return the folder with the files of a project that come with this code: a clone, or data of the package."""
    above = Path(__file__).resolve().parents[1]
    return above if (above / DVC_YAML).is_file() else above / "pipeline" / "project"


def pipelines(project: Path) -> list[Pipeline]:
    """Return the pipelines of a project: its own, then those of its folders by name; a ``.dvc`` marks another."""
    below = sorted(
        file.parent.name
        for file in project.glob(f"*/{DVC_YAML}")
        if not file.parent.name.startswith(".") and file.with_name(PARAMS).is_file()
        if not file.with_name(".dvc").exists()
    )
    return [Pipeline(project, folder) for folder in ("", *below)]


def has_code(project: Path) -> bool:
    """Return whether a project has stages of its own, as a clone has, and does not run those of the program."""
    return (project / "stages").is_dir()


def known(project: Path) -> list[Pipeline]:
    """Return the pipelines of a project, then those of the program that it runs and that the project lacks."""
    own = pipelines(project)
    others = [] if has_code(project) else pipelines(shipped())
    return own + [one for one in others if one.folder not in {other.folder for other in own}]


def by_stage(project: Path) -> dict[str, Pipeline]:
    """Return the pipeline of each stage of a project by the stage's address, in the order of the files.

    Raises:
        FileFormatError: a ``dvc.yaml`` cannot be read.
    """
    return {one.address(name): one for one in pipelines(project) for name in one.stages}


def by_entry(project: Path) -> dict[str, Mapping[str, Any]]:
    """Return the description of each run of all pipelines by its address; errors are those of :meth:`Pipeline.runs`."""
    return {address: run for one in pipelines(project) for address, run in one.runs().items()}


def of_sections(sections: Iterable[object], project: Path) -> Pipeline:
    """Return the known pipeline whose stages are most of some sections; at a tie the first."""
    names = set(sections)
    return max(known(project), key=lambda one: len(names & one.stages.keys()))


def run_dvc(*arguments: str, folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Run a short DVC command and return its output; SetupError where it fails."""
    command, own = [sys.executable, "-m", "dvc", *arguments], {**environment, "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)  # noqa: S603 - DVC with fixed words
    if done.returncode:
        raise SetupError(f"dvc {' '.join(arguments[:2])} failed: {last_line(done.stderr)}", where=folder)
    return done.stdout.strip()
