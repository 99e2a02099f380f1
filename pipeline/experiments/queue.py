"""DVC's queue of experiments: what of a sweep is in it, and the workers that run it.

The workers are separate processes: they go on when the sweep that started them ends, however it ends. DVC reports
the experiment of a killed worker as running for ever, so an experiment runs where a live worker has it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.experiments.baseline import Baseline
from pipeline.experiments.grid import Trial, sections
from pipeline.experiments.slots import Slots
from pipeline.lineage import repository
from sightword.errors import ParamsError, SetupError, SweepError
from sightword.io import yaml_reader
from sightword.io.files import canonical_json, read_text
from sightword.messages import and_more, flat, last_line

if TYPE_CHECKING:
    from dvc.repo import Repo
    from dvc.repo.experiments.queue.celery import LocalCeleryQueue

ANSWER = 5.0
"""Seconds that workers have to answer."""


class Queue:
    """DVC's queue, for the experiments of one commit."""

    def __init__(self, baseline: Baseline, repo: Repo) -> None:
        self.baseline = baseline
        self._repo = repo
        self._experiments = repo.experiments
        self._queue = repo.experiments.celery_queue

    def check(self) -> None:
        """Check that DVC's cache has the folders in ``dvc.lock`` of which stages read a file; SweepError otherwise.

        DVC (3.67) looks such a file up there after a stage of an experiment that it took from its cache.
        """
        index, pipeline = self._repo.index, self.baseline.pipeline
        file = (pipeline.project / pipeline.dvc_yaml).resolve()
        stages = [stage for stage in index.stages if Path(stage.path).resolve() == file]
        read = {folder for stage in stages for dep in stage.deps for folder in Path(dep.fs_path).parents}
        written = [out for out in index.outs if Path(out.fs_path) in read and not out.stage.is_data_source]
        known = [out for out in written if out.use_cache and out.hash_info and out.hash_info.isdir]
        if lost := [str(out) for out in known if not out.cache.exists(out.hash_info.value)]:
            what = f"the outputs of the last commit are not in DVC's cache: {and_more(lost)}"
            todo = "Run `dvc pull`; or `dvc repro`, and commit; or `git rm dvc.lock`, and commit."
            raise SweepError(what, where="dvc.lock", todo=todo)

    def states(self) -> dict[str, str]:
        """Return ``queued``, ``running``, ``failed`` or ``dead`` (its worker is gone) of experiments, by name."""
        states = {self._named(done.entry): "failed" for done in self._queue.iter_done()}
        states |= {self._named(entry): "queued" for entry in self._queue.iter_queued()}
        active = {entry.stash_rev: name for entry in self._queue.iter_active() if (name := self._named(entry))}
        running = _running(self._queue, active)
        states |= dict.fromkeys(active.values(), "dead")
        states |= {name: "running" for sha, name in active.items() if sha in running}
        return {name: state for name, state in states.items() if name}

    def _named(self, entry: Any) -> str:
        return entry.name or "" if entry.baseline_rev == self.baseline.commit else ""

    def put(self, trial: Trial) -> None:
        """Queue an experiment; SweepError where DVC refuses it, or where YAML cannot have its parameters."""
        from dvc.exceptions import DvcException
        from dvc.utils.hydra import apply_overrides

        pipeline = self.baseline.pipeline
        text = read_text(pipeline.project / pipeline.params)
        changes = overrides(yaml_reader.parse(text, pipeline.params), trial.params)
        targets = [pipeline.dvc_yaml] if pipeline.folder else None
        try:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / "params.yaml"
                copy.write_text(text, encoding="utf-8")
                apply_overrides(copy, changes)
                if sections(yaml_reader.parse(read_text(copy), copy)) != trial.params:
                    raise SweepError("its parameters cannot be written as YAML", where=trial.name)
            params = {pipeline.params: changes}
            self._experiments.queue_one(self._queue, targets=targets, name=trial.name, params=params)
        except (DvcException, ParamsError) as error:
            raise SweepError(f"DVC cannot queue it: {error}", where=trial.name) from None

    def forget(self, states: Mapping[str, str]) -> None:
        """Remove failed and dead experiments from the queue."""
        for entry in [*self._queue.iter_active()]:
            if states.get(self._named(entry)) == "dead":
                if process := self._queue.proc.get(entry.stash_rev):
                    process.returncode = -1  # else DVC ends the process of this number, which is another program's
                    self._queue.proc[entry.stash_rev] = process
                self._queue.kill([entry.stash_rev], force=True)
        if shas := [done.entry.stash_rev for done in self._queue.iter_done() if self._named(done.entry) in states]:
            self._queue.remove(shas)

    def start(self, slots: Slots, count: int) -> None:
        """Start workers until there are ``count`` of them; SetupError where DVC cannot."""
        for message in Path(self._queue.wdir, "broker", "in").glob("*@localhost.celery.pidbox.msg"):
            message.unlink(missing_ok=True)  # such as `dvc queue stop` to a worker that is gone: it would end a new one
        inherited = repository.environment().items()
        kept = {name: value for name, value in inherited if not name.startswith(("DVC_EXP_", "DVC_ROOT", "DVC_STAGE"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        environment = {**kept, **slots.environment, "PATH": path, "DVC_EXP_AUTO_PUSH": "0", "DVC_NO_ANALYTICS": "1"}
        command = [sys.executable, "-m", "dvc", "queue", "start", "-j", str(count)]
        with tempfile.TemporaryFile("w+") as said:  # the workers would hold a pipe open
            where = self.baseline.project
            done = subprocess.run(command, cwd=where, env=environment, stdout=said, stderr=said, check=False)  # noqa: S603 - DVC with fixed words
            said.seek(0)
            if done.returncode:
                raise SetupError(f"dvc queue start failed: {last_line(said.read())}", where=where)

    def alive(self) -> int:
        """Return the number of workers that answer."""
        return len(self._queue.celery.control.inspect(timeout=ANSWER).active() or {})

    def log(self, name: str) -> Path | None:
        """Return the log of an experiment that has begun."""
        for entry in [*self._queue.iter_active(), *(done.entry for done in self._queue.iter_done())]:
            if self._named(entry) == name and (process := self._queue.proc.get(entry.stash_rev)):
                return Path(process.stdout)
        return None


@contextlib.contextmanager
def opened(baseline: Baseline) -> Iterator[Queue]:
    """Open the queue of a project; SetupError where DVC cannot."""
    from dvc.exceptions import DvcException

    try:
        with _repo(baseline.project) as repo:
            yield Queue(baseline, repo)
    except DvcException as error:
        raise SetupError(f"DVC's queue failed: {error}", where=baseline.project) from None


def _running(queue: LocalCeleryQueue, shas: Collection[str]) -> set[str]:
    """Return the experiments, of some shas in the queue, whose process lives, or that a worker says it has.

    A worker of a busy machine is slow to answer.
    """
    import psutil

    running = set()
    for sha in shas:
        with contextlib.suppress(psutil.Error):
            process = queue.proc.get(sha)
            if process and sha in " ".join(psutil.Process(process.pid).cmdline()):
                running.add(sha)
    if {*shas} - running:
        for tasks in (queue.celery.control.inspect(timeout=ANSWER).active() or {}).values():
            for task in tasks:
                with contextlib.suppress(KeyError, IndexError):
                    running.add(task["args"][0]["stash_rev"])
    return running


def listing(project: Path, commit: str | None = None) -> Any:
    """Return what ``dvc exp show --json`` prints of a commit (default: the last), of unfinished experiments only names.

    DVC reads the folders of running experiments, which a worker removes at any time.
    """
    from dvc.exceptions import DvcException
    from dvc.repo.experiments.collect import collect

    try:
        with _repo(project) as repo:
            queue = repo.experiments.celery_queue
            queue.collect_active_data = lambda *_, **__: {}
            active = list(queue.iter_active())
            running = _running(queue, [one.stash_rev for one in active])
            states = [one.dumpd() for one in collect(repo, revs=commit, hide_workspace=True)]
    except DvcException as error:
        raise SetupError(f"dvc exp show failed: {error}", where=project) from None
    for state in states:
        kept = state["experiments"] or []
        names = {revision["name"] for one in kept for revision in one["revs"]}
        for one in active:
            if one.baseline_rev == state["rev"] and one.name not in names:
                executor = {"state": "running" if one.stash_rev in running else "dead"}
                kept.append({"revs": [{"rev": one.stash_rev, "name": one.name}], "executor": executor})
        state["experiments"] = kept
    return json.loads(json.dumps(states, default=str))


@contextlib.contextmanager
def _repo(project: Path) -> Iterator[Repo]:
    from dvc.repo import Repo

    quiet = [logging.getLogger(name) for name in ("dvc", "kombu", "celery", "dvc_task", "")]
    levels = [logger.level for logger in quiet]
    for logger in quiet:
        logger.setLevel(logging.ERROR)
    try:
        with contextlib.chdir(project), Repo(os.fspath(project)) as repo, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of celery's packages
            yield repo
    finally:
        for logger, level in zip(quiet, levels, strict=True):
            logger.setLevel(level)


def overrides(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the changes from some parameters to others in the language of ``dvc exp run --set-param``."""
    old, new = flat(before), flat(json.loads(canonical_json(after)))
    kept = {prefix for key in new for prefix in _prefixes(key)}
    lost = ([prefix for prefix in _prefixes(key) if prefix not in kept] for key in old if key not in new)
    gone = dict.fromkeys(prefixes[0] for prefixes in lost if prefixes)
    changed = [key for key, value in new.items() if key not in old or json.dumps(old[key]) != json.dumps(value)]
    empty = [f"++{key}=0" for key in gone if key in old and old[key] is None]  # which Hydra cannot remove
    return [*empty, *(f"~{key}" for key in gone), *(f"++{key}={_spelt(new[key])}" for key in changed)]


def _prefixes(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _spelt(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if isinstance(value, str):
        quoted = re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), value)
        return f"'{quoted}'".replace("${", "\\${")
    if isinstance(value, list):
        return f"[{','.join(map(_spelt, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_spelt(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)
