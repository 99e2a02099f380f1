"""The run whose results lie in the workspace or in a commit, and the checks that its numbers are its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline import systems
from pipeline.experiments.results import METRICS, foreign
from pipeline.lineage import documents
from pipeline.lineage.evidence import VERSIONS, KnownFacts
from pipeline.lineage.facts import OUTS, listed, params_files, stage_paths
from pipeline.lineage.files import Cache, Snapshot, hash_listing, md5_of_text
from pipeline.lineage.lock import Artefact, Entry, is_code, within
from pipeline.lineage.repository import Repository, git
from pipeline.params import overlay, recipes
from pipeline.pipelines import Pipeline, expanded, folder_of, parameter, stage_of
from pipeline.results.records import Run
from pipeline.results.scores import read_scores
from sightword.errors import LineageError
from sightword.messages import and_more

PUSH = "`git push`, then add the row."
COMMIT = "Commit it, run the pipeline again, and add the row then."


@dataclass(frozen=True)
class FinishedRun:
    """The last run of a pipeline in a snapshot."""

    then: Snapshot
    pipeline: Pipeline

    @cached_property
    def params(self) -> dict[str, Any]:
        """The parameters by section, as they stand in the file."""
        return dict(self.values(self.pipeline.params))

    @property
    def seed(self) -> str | None:
        """The full name of the parameter in which the runs of a row differ; None where the system has none."""
        name: str | None = systems.declared(self.pipeline, "SEED", None)
        return name

    @cached_property
    def entries(self) -> list[Entry]:
        """The entries of the pipeline's stages with metrics.

        Raises:
            LineageError: one of them has not run.
        """
        described = self.values(self.pipeline.dvc_yaml)["stages"]
        names = expanded(described, self.params, self.pipeline.dvc_yaml)
        runs = {self.pipeline.address(name): [path for path, _ in listed(one, OUTS)] for name, one in names.items()}
        wanted = [name for name, outs in runs.items() if any(within(path, METRICS) for path in outs)]
        if absent := [name for name in wanted if name not in self.then.lock.entries]:
            what, todo = f"has no run of {and_more(absent)}", f"Run the whole pipeline: `{self.pipeline.command}`."
            raise LineageError(what, where=self.pipeline.lock, todo=todo)
        return [self.then.lock.entries[name] for name in wanted]

    @cached_property
    def chain(self) -> list[Entry]:
        """These entries, and all that they build on, of other pipelines too."""
        every = (one for entry in self.entries for one in self.then.lock.chain(entry.name))
        return list({one.name: one for one in every}.values())

    @cached_property
    def inputs(self) -> list[Artefact]:
        """The data that no stage made, without the ledgers, which grow beside the metrics."""
        deps = {dep.path: dep for entry in self.chain for dep in entry.deps}
        raw = [path for path in sorted(deps) if not is_code(path) and not within(path, METRICS)]
        return [deps[path] for path in raw if not self.then.lock.made(path)]

    @property
    def outputs(self) -> list[Artefact]:
        """The pipeline's files of metrics, and the models that they are of."""
        own = [one for one in self.chain if folder_of(one.name) == self.pipeline.folder]
        every = {out.path: out for entry in own for out in entry.outs}
        outs = {path: out for path, out in every.items() if within(path, "models") or within(path, METRICS)}
        return [outs[path] for path in sorted(outs)]

    def metrics(self) -> dict[str, bytes]:
        """Return the texts of the files of metrics by path; LineageError for one that its stage did not write."""
        found = {}
        for out in (out for one in self.entries for out in one.outs if within(out.path, METRICS)):
            if out.path.endswith(".json"):
                text = self.then.read(out.path)
                if text is None or md5_of_text(text) != out.md5:
                    what = "is not there" if text is None else "is not the file that its stage wrote"
                    raise LineageError(what, where=out.path, todo=f"Run it again: `{self.pipeline.command}`.")
                found[out.path] = text
        return found

    def described(self, facts: Sequence[Path], commit: str | None, inputs: Mapping[str, str]) -> Run:
        """Return the run as a row has it; what the facts in some folders do not say of all stages is absent.

        The inputs are given with their hashes. The threads are those of the stage that reads the seed: the last bits of
        its training depend on them.
        """
        known = KnownFacts(facts)
        told = [known.of(entry) for entry in self.chain]
        seeds = parameter(self.params, self.seed) if self.seed else 0
        seeded = self.pipeline.address((self.seed or "").partition(".")[0])
        drawn = [one for entry, one in zip(self.chain, told, strict=True) if stage_of(entry.name) == seeded] or told
        dates = [str(one["started"])[:10] for one in told if one]
        whole = None not in told
        return Run(
            seeds=seeds if isinstance(seeds, list) else [seeds],
            commit=commit,
            date=max(dates) if whole else None,
            processor=_common(told, machine_of),
            packages=dict(_common(told, packages_of) or ()),
            threads=_common(drawn, lambda one: one["threads"]),
            seconds=round(sum(one["seconds"] for one in told if one)) if whole else None,
            inputs=dict(inputs),
            outputs={one.path: one.md5 for one in self.outputs},
            scores=read_scores(self.metrics()),
        )

    def values(self, path: str) -> Mapping[str, Any]:
        """Return the values of a YAML file of the snapshot; LineageError where it is absent or cannot be read."""
        values = documents.parse((self.then.read(path) or b"").decode(errors="replace"), path)
        if not isinstance(values, Mapping):
            raise LineageError("is not there, or is empty", where=path)
        return values

    def check(self, facts: Sequence[Path]) -> None:
        """Check that the present parameters, and one run of each stage, made the metrics; LineageError otherwise."""
        cache, lock = Cache(self.then.project), self.then.lock
        params = {file: {"data": self.values(file)} for entry in self.chain for file in entry.params}
        records = KnownFacts(facts, self.then.project)
        wrong, _ = foreign(self.metrics(), params, lock, records)
        again = f"Run it again: `{self.pipeline.command}`."
        if wrong:
            path, why = next(iter(wrong.items()))
            raise LineageError(why, where=path, todo=again)
        for entry in self.chain:
            for dep in entry.deps:
                maker = lock.producer(dep.path)
                if maker and cache.wrote(maker, dep.path) not in (None, dep.md5):
                    what = f"was made again by {maker.name} since {entry.name} read it"
                    raise LineageError(what, where=dep.path, todo=again)

    def check_stages(self, repository: Repository, public: str) -> None:
        """Check that the stages have the commands, inputs, parameters and outputs of a commit; LineageError otherwise.

        The code of a stage is that of its inputs, so a ``dvc.yaml`` that leaves one out would hide a change.
        """
        for folder in sorted({folder_of(entry.name) for entry in self.chain}):
            one = Pipeline(self.then.project, folder)
            text = (repository.read(public, one.dvc_yaml) or b"").decode(errors="replace")
            stages = (documents.parse(text, one.dvc_yaml) or {}).get("stages", {})
            known = expanded(stages, self.values(one.params), one.dvc_yaml)
            for entry in (entry for entry in self.chain if folder_of(entry.name) == folder):
                described = known.get(entry.name.rpartition(":")[2], {})
                if not self._is_described(entry, described, one):
                    what = f"the stage {entry.name} ran with another command, dependency, parameter or output than it "
                    what += f"has in the commit {public[:7]}"
                    todo = "Commit and push the file of the run, or run the pipeline again with that of the commit."
                    raise LineageError(what, where=one.dvc_yaml, todo=todo)

    def _is_described(self, entry: Entry, described: Mapping[str, Any], pipeline: Pipeline) -> bool:
        """Return whether an entry has the command, the names of parameters, and the paths of a stage."""
        command, read = described.get("cmd", ""), params_files(described, pipeline)
        try:
            deps, outs = stage_paths(described, self.values(pipeline.params))
        except KeyError:  # a path with a parameter that the run does not have
            return False
        return (
            entry.command == (command if isinstance(command, str) else "\n".join(command))
            and {file: {*names} for file, names in entry.params.items()}
            == {file: {*names} for file, names in read.items() if names}
            and {one.path for one in entry.deps} == {*deps}
            and {one.path for one in entry.outs} == {*outs}
        )


def _common(told: Sequence[dict[str, Any] | None], of: Any) -> Any:
    """Return what all facts say; None where they differ, or where some are not known."""
    found = {None if one is None else of(one) for one in told}
    return found.pop() if len(found) == 1 else None


def machine_of(facts: Mapping[str, Any]) -> str:
    """Return the kind of machine that made a number: the GPU, else the processor."""
    return str(facts["processor"] if facts["device"] == "cpu" else facts["device"])


def packages_of(facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the versions on which the last bits of a number depend."""
    return tuple((name, facts["packages"].get(name, "none")) for name in VERSIONS)


def public_commit(project: Path, head: str) -> str:
    """Return the newest commit up to ``head`` that a remote has; without remotes, that the checked-out commit has.

    ``head`` itself may be of one laboratory alone: an experiment, or a commit that adds data.

    Raises:
        LineageError: there are remotes, and none has any commit up to ``head``.
    """
    remotes = git(project, "remote").split()
    refs = git(project, "for-each-ref", "refs/remotes", "--format=%(objectname)").split() if remotes else ["HEAD"]
    bases = []
    for ref in dict.fromkeys(refs):
        with contextlib.suppress(LineageError):  # without a common commit
            bases.append(git(project, "merge-base", head, ref).strip())
    if remotes and not bases:
        raise LineageError(f"no commit up to {head[:7]} is on a remote", where=project, todo=PUSH)
    return git(project, "rev-list", "--max-count=1", "--date-order", *bases).strip() if bases else head


def check_code(chain: Iterable[Entry], repository: Repository, public: str, head: str) -> None:
    """Check that the code of some entries is that of a commit.

    Raises:
        LineageError: it is in no commit, or only in one that no remote has.
    """
    seen: dict[tuple[str, str], str] = {}

    def hashed(commit: str, dep: Artefact) -> str:
        if (commit, dep.path) not in seen:
            seen[commit, dep.path] = _in_commit(repository, commit, dep)
        return seen[commit, dep.path]

    for entry in chain:
        for dep in (dep for dep in entry.deps if is_code(dep.path) and hashed(public, dep) != dep.md5):
            if hashed(head, dep) == dep.md5:
                what = f"the code with which {entry.name} ran is in the commit {head[:7]}, which no remote has"
                raise LineageError(what, where=dep.path, todo=PUSH)
            what = f"the code with which {entry.name} ran is not that of the commit {public[:7]}"
            raise LineageError(what, where=dep.path, todo=COMMIT)


def check_recipes(names: Iterable[str], project: Path, repository: Repository, public: str) -> None:
    """Check that some recipes of the project, and their bases, are those of a commit; LineageError otherwise."""
    for name in names:
        for path in overlay.files(recipes.find(name, project), project):
            shown = path.relative_to(project).as_posix() if path.is_relative_to(project) else None
            if shown and repository.read(public, shown) != path.read_bytes():
                what = f"the recipe {name} is not that of the commit {public[:7]}"
                raise LineageError(what, where=shown, todo="Commit and push it, then add the row.")


def _in_commit(repository: Repository, commit: str, dep: Artefact) -> str:
    """Return DVC's hash of a file or folder of a commit; of an absent one, that of an empty one."""
    names = repository.files(commit, dep.path) if dep.folder else [""]
    texts = {name: repository.read(commit, f"{dep.path}/{name}".rstrip("/")) or b"" for name in names}
    found = {name: md5_of_text(text) for name, text in texts.items()}
    return hash_listing(found) if dep.folder else found[""]
