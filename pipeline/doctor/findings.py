"""Findings of checks, the context that checks read, and checks of files that parameters name."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pipeline.lineage.lock import lock_here
from pipeline.params import params_file
from pipeline.pipelines import PARAMS, Pipeline, pipelines
from sightword.errors import SemanticsError, SightwordError
from sightword.io.files import loads
from sightword.messages import and_more, first_line, last_line, without_credentials
from sightword.settings import Settings

SECONDS = {"dvc": 15.0, "torch": 60.0}
"""Time limits: of DVC with its remote, and of loading torch, which may be slow on a busy machine."""
README = "data/raw/README.md describes where it belongs; `sightword fetch --help` lists what can be downloaded."


@dataclass(frozen=True)
class Finding:
    """One result of a check: ``what`` is a sentence without a full stop, ``todo`` the advice."""

    check: str
    state: Literal["ok", "warning", "problem"]
    what: str
    todo: str = ""


good, warning, problem = (partial(Finding, "", state) for state in ("ok", "warning", "problem"))
"""Make a finding: a problem makes a run fail, or give a wrong result; a warning makes a run worse."""


def failure(error: SightwordError, todo: str) -> Finding:
    """Return the problem that an error names, with the error's advice, else with ``todo``."""
    place = f"{error.where}: " if error.where else ""
    what = f"{place}{error.what}" + (f"; expected {error.expected}" if error.expected else "")
    return problem(what, (error.todo or todo).strip())


@dataclass
class Context:
    """What checks read: the user's working folder, and the project (None outside a project)."""

    folder: Path
    project: Path | None
    quick: bool = False
    """Leave out slow checks."""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Answers of ``dvc`` and ``torch``."""

    def ask(self, name: str) -> dict[str, Any]:
        """Return the answer of ``dvc`` or ``torch``; empty where there is no project, or no time."""
        if name not in self.facts:
            option = "--no-remote" if self.quick else ""
            command = [
                sys.executable,
                "-P",
                "-m",
                "pipeline.doctor.probes",
                name,
                option,
            ]  # -P: no modules of the folder
            skip = self.project is None if name == "dvc" else self.quick
            self.facts[name] = {} if skip else probe(command, self.project or self.folder, SECONDS[name])
        return self.facts[name]

    @property
    def root(self) -> Path:
        """The project's folder, for checks that need a project."""
        assert self.project is not None
        return self.project

    @functools.cached_property
    def sections(self) -> Mapping[Pipeline, Mapping[str, Settings]]:
        """The sections of each pipeline, by name; without pipelines whose parameters are wrong."""
        sections = {}
        for pipeline in pipelines(self.project) if self.project else []:
            with contextlib.suppress(SightwordError):  # the check of files reports the error
                sections[pipeline] = params_file.load(pipeline.project / pipeline.params)
        return sections

    def section(self, name: str) -> Any:
        """Return a section, such as ``train`` or ``hypernyms/params.yaml:train``; None where there is none."""
        every = (
            (system.full_name(key), section) for system, keys in self.sections.items() for key, section in keys.items()
        )
        return dict(every).get(name)

    def has_run(self, stage: str) -> bool:
        """Return whether ``dvc.lock`` has a stage with its present parameters."""
        section = self.section(stage)
        try:
            entry = lock_here(self.root).entries.get(stage)
        except SightwordError:
            return False  # the check of files reports the error
        return bool(section and entry and entry.params.get(PARAMS, {}).get(stage) == section.model_dump())


def probe(command: Sequence[str], folder: Path, seconds: float) -> dict[str, Any]:
    """Run a program that prints JSON objects, one a line, and return them as one.

    ``failed`` says why the program ended early; ``late`` is True where its time was over.
    """
    paths = [str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    # In a new session the program cannot ask the user for a password, and dies with all its children.
    with subprocess.Popen(  # noqa: S603 - this Python, with modules of Sightword
        command, cwd=folder, start_new_session=True, encoding="utf-8", errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"},
    ) as process:  # fmt: skip
        answer: dict[str, Any] = {}
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            answer["late"] = True
    for line in output.splitlines():
        with contextlib.suppress(ValueError):  # libraries print other lines
            values = loads(line)
            answer |= values if isinstance(values, dict) else {}
    if process.returncode and "late" not in answer:
        answer["failed"] = without_credentials(last_line(errors.strip() or f"exit code {process.returncode}"))
    return answer


class Check(NamedTuple):
    """A named check."""

    name: str
    function: Callable[[Context], Iterable[Finding]]
    needs_project: bool = False
    """The check is left out outside a project."""
    slow: bool = False
    """The check is left out with ``--quick``."""


def examine(checks: Iterable[Check], context: Context) -> Iterator[Finding]:
    """Yield the findings of the checks, in their order; a check that fails is a problem too."""
    for check in checks:
        if (check.needs_project and context.project is None) or (check.slow and context.quick):
            continue
        try:
            findings = list(check.function(context))
        except SightwordError as error:
            findings = [failure(error, "Look at it by hand.")]
        except Exception as error:  # noqa: BLE001 - a broken machine fails in unforeseen ways
            what = f"could not be checked ({type(error).__name__}: {first_line(error)})"
            findings = [problem(what, "Look at it by hand.")]
        yield from (replace(finding, check=check.name) for finding in findings)


def advice(context: Context, path: str) -> str:
    """Return how a missing path is had: from DVC where a ``.dvc`` file tracks it, else as the README says."""
    return f"`dvc pull {path}.dvc`." if (context.root / f"{path}.dvc").is_file() else README


def exist(context: Context, named: Mapping[str, str]) -> Iterator[Finding]:
    """Check that the files and folders that parameters name exist."""
    for parameter, file in named.items():
        if (context.root / file).exists():
            yield good(f"{parameter}: {file} exists")
        else:
            yield problem(f"{parameter}: {file} does not exist", "Put it there, or fix the name.")


def tried(context: Context, parameter: str, path: str, read: Callable[[], object]) -> Finding:
    """Return whether ``read`` can read what a parameter names."""
    try:
        read()
    except SightwordError as error:
        finding = failure(error, advice(context, path))
        return replace(finding, what=f"{parameter}: {finding.what}")
    return good(f"{parameter}: {path} can be read")


def tasks(context: Context, parameter: str, settings: Any, wanted: Sequence[str]) -> Iterator[Finding]:
    """Check that the folder ``settings.data``, which a parameter names, has the files of SentEval's tasks."""
    from sightword.evaluation.semantics.datasets import missing_file
    from sightword.evaluation.semantics.settings import CLASSIFICATION, TASKS

    if not wanted:
        return
    data, named = context.root / settings.data, f"{parameter} = {settings.data}"
    drawn = getattr(context.section("corpus"), "draws_pictures", False)
    if drawn and not (data / "downstream").is_dir() and settings.data.startswith("data/corpus/"):
        yield good(f"{named}: the stage corpus makes it")
        return
    try:
        missing = {task: file for task in wanted if (file := missing_file(task, data)) is not None}
    except SemanticsError as error:
        finding = failure(error, advice(context, settings.data))
        yield replace(finding, what=f"{named}: {finding.what}")
        return
    gone = [f"{task} ({file})" for task, file in missing.items()]
    if len(gone) == len(wanted) and settings.missing == "skip":
        yield good(f"{named} has no task yet: none is scored (`sightword fetch senteval` brings them)")
    elif gone and settings.missing == "skip":
        yield warning(f"{named} lacks {and_more(gone, 5)}: left out", README)
    elif gone:
        sources = {"snli" if task == "SNLI" else "senteval" for task in missing if task in (*TASKS, *CLASSIFICATION)}
        sources |= {"stsb-multi-mt" for task in missing if task.startswith("STSBenchmark-")}
        fetch = " and ".join(f"`sightword fetch {name}`" for name in sorted(sources))
        yield problem(f"{named} lacks {and_more(gone, 5)}", f"Fetch the published ones: {fetch}." if fetch else README)
    else:
        yield good(f"{named} has the files of {len(wanted)} tasks")
