"""What the model card of an encoder cannot know when it is written: scores on the test split, raw data, the commit."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pipeline.lineage.evidence import KnownFacts, in_words, known_facts
from pipeline.lineage.files import Cache, Workspace, md5_of_text
from pipeline.lineage.lock import Entry, Lock, hashes, is_code, lock_here, within
from pipeline.lineage.repository import Repository
from pipeline.pipelines import LOCKS
from sightword.errors import EncoderError, LineageError
from sightword.io.files import read_json
from sightword.statistics.inference import with_interval

RETRIEVAL, SEMANTICS = "metrics/retrieval.json", "metrics/semantics.json"
_DIRECTIONS = {"caption_to_image": "caption to picture", "image_to_caption": "picture to caption"}
_SHORT = """
Short queries are the most frequent runs of words in the captions of the split. A picture is right if one of its
captions has the run. Percent:

"""
_SHORT_HEAD = ("split", "query", "mean average precision", "first picture right", "queries")


def corpus(project: Path, encoder: str) -> str:
    """Return ``corpus.format`` of the run that wrote an encoder; empty where no such stage did."""
    lock = lock_here(project)
    maker = lock.producer(encoder)
    chain = lock.chain(maker.name) if maker else []
    return str(next((name for one in chain if (name := one.flat_params().get("corpus.format"))), ""))


def sections(project: Path, encoder: str) -> tuple[str, Any, str]:
    """Return sections of scores in Markdown, as far as they are of this encoder; those of retrieval; and the lineage.

    Raises:
        LineageError: no stage wrote the encoder, or the lock cannot be read.
        EncoderError: the encoder is not the one in the lock; or a stage that it builds on has run again since; or the
            facts of runs disagree with its entry, or with that of a stage with scores.
    """
    lock = lock_here(project)
    known = known_facts(project)
    maker = lock.producer(encoder)
    if maker is None:
        raise LineageError("no stage wrote it", where=encoder)
    _check_written(maker, encoder, project)
    parts = []
    if retrieval := _metrics(project, lock, encoder, RETRIEVAL, known):
        parts.append(_retrieval(retrieval))
    if semantics := _metrics(project, lock, encoder, SEMANTICS, known):
        parts.append(_semantics(semantics))
    return "".join(parts), retrieval, _lineage(project, lock, maker, known)


def _metrics(project: Path, lock: Lock, encoder: str, path: str, known: KnownFacts) -> Any:
    """Return the metrics of a stage that read the present encoder; None where they are of another one, or edited."""
    judge, maker = lock.producer(path), lock.producer(encoder)
    if judge is None or maker is None or not (project / path).is_file():
        return None
    wrote, read = ({one.path: one.md5 for one in part} for part in (maker.outs, judge.deps))
    now = md5_of_text((project / path).read_bytes())
    if wrote.get(encoder) != read.get(encoder, "") or hashes(judge.outs)[path] != now:
        return None
    _check_ran([judge], known)
    return read_json(project / path)


def _retrieval(metrics: Any) -> str:
    rows, short = [], []
    for split, protocols in metrics.items():
        for protocol, directions in protocols.items() if isinstance(protocols, dict) else ():
            for name, entry in directions.items() if protocol == "short_queries" else ():
                scores = [with_interval(entry[key], entry[f"{key}_ci95"]) for key in ("map", "first_right")]
                short.append([split, name.replace("_", " "), *scores, str(entry["queries"])])
            for direction, words in _DIRECTIONS.items():
                entry = directions.get(direction) if isinstance(directions, dict) else None
                if entry is not None:
                    recalls = [with_interval(entry[f"r{k}"], entry[f"r{k}_ci95"]) for k in (1, 5, 10)]
                    rows.append([f"{split}, {protocol}", words, *recalls, f"{entry['median_rank']:g}"])
    return f"""
## Retrieval scores

{_table(["split, protocol", "", "R@1", "R@5", "R@10", "median rank"], rows)}
{f"{_SHORT}{_table(_SHORT_HEAD, short)}{chr(10)}" if short else ""}"""


def _semantics(metrics: Any) -> str:
    controls = metrics.get("controls", {})
    rows = []
    for task, entries in metrics.items():
        if task in ("skipped", "controls") or "accuracy" in entries:
            continue
        seen = {name: one["seen_in_training"] for name, one in entries.items() if "seen_in_training" in one}
        for name in ("mean", "cosine", "trained"):
            if name in entries:
                words = {"mean": "mean over subtasks, cosine", "trained": "trained head"}.get(name, name)
                values = [entries[name][kind] for kind in ("pearson", "spearman")]
                values += [controls.get(control, {}).get(task, {}).get(name, "") for control in ("tfidf", "untrained")]
                cells = ["undefined" if one is None else f"{100 * one:.1f}" if one != "" else "" for one in values]
                most = max(seen, key=seen.__getitem__) if name == "mean" and seen else name
                share = f"{100 * seen[most]:.1f}" if most in seen else ""
                rows.append([task, words, *cells, f"{share} ({most})" if share and most != name else share])
    if not rows:
        return ""
    head = ["task", "", "100 r (Pearson)", "100 rho (Spearman)", "tf-idf, 100 r", "untrained, 100 r", "% seen"]
    return f"""
## Semantic scores

{_table(head, rows)}

Tf-idf of character n-grams learns nothing, and *untrained* is this encoder with random weights. *Seen* is the
share of the test sentences that equal a training caption, of several subtasks the highest.
"""


def _lineage(project: Path, lock: Lock, maker: Entry, known: KnownFacts) -> str:
    chain = lock.chain(maker.name)[::-1]
    _check_agrees(chain, lock, Cache(project))
    unseen = _check_ran(chain, known)
    raw = {dep.path: dep for entry in chain for dep in entry.deps if not lock.made(dep.path)}
    data = [[f"`{path}`", f"`{dep.md5}`"] for path, dep in raw.items() if not is_code(path)]
    stages, state = ", ".join(entry.name for entry in chain), _recorded(project, chain)
    flat = [item for entry in chain for item in entry.flat_params().items()]
    values = [[f"`{name}`", "" if value in ("", None) else f"`{json.dumps(value)}`"] for name, value in flat]
    return f"""
## Lineage

Made by the stages {stages} of Sightword, {state}, with the
parameters below{unseen}. The hashes are DVC's (md5; of a folder, of its listing).

{_table(["raw data", "md5"], data)}

{_table(["parameter", "value"], values)}
"""


def _check_written(maker: Entry, encoder: str, project: Path) -> None:
    """Check that the encoder that lies here is the one that its stage wrote; EncoderError otherwise."""
    out = next(out for out in maker.outs if within(encoder, out.path))
    if Workspace(project).state(out) != "ok":
        raise EncoderError(
            f"is not what the stage {maker.name} wrote, so dvc.lock does not say what it was made from",
            where=out.path,
            expected=f"the hash {out.md5}",
            todo=f"`dvc checkout --force {out.path}` brings that back; an encoder of your own belongs elsewhere.",
        )


def _check_agrees(chain: Sequence[Entry], lock: Lock, cache: Cache) -> None:
    """Check that each stage of a chain read what the stage before has written; EncoderError otherwise."""
    for entry in chain:
        for dep in entry.deps:
            source = lock.producer(dep.path)
            if source and cache.wrote(source, dep.path) not in (None, dep.md5):
                raise EncoderError(
                    f"the stage {entry.name} read another {dep.path} than {source.name} has written since, so dvc.lock "
                    "does not say what the encoder was made from",
                    todo="Run `dvc repro`, or pack it in a clone of the commit that recorded it, after `dvc checkout`.",
                )


def _check_ran(entries: Sequence[Entry], known: KnownFacts) -> str:
    """Check that no facts disagree with entries (EncoderError); return the stages without facts of a run, in words."""
    weighed = {entry.name: known.weigh(entry) for entry in entries}
    for name, one in weighed.items():
        if one.doubted:
            raise EncoderError(
                f"dvc.lock does not say how the stage {name} ran: {in_words(one.verdict, one.why)}",
                todo=f"`dvc repro --force --single-item {name}` runs it; else take a run's commit.",
            )
    unknown = [name for name, one in weighed.items() if one.verdict != "run recorded"]
    return f", as dvc.lock says (no facts of the runs of {', '.join(unknown)} were here)" if unknown else ""


def _recorded(project: Path, chain: Sequence[Entry]) -> str:
    """Return the newest commit that recorded the entries of a chain, in words."""
    with contextlib.suppress(LineageError), Repository(project) as repository:
        for commit in repository.commits(LOCKS):
            lock = repository.lock_or_none(commit)
            if lock and all(lock.entries.get(entry.name) == entry for entry in chain):
                return f"at commit `{commit.sha}`"
    return "in a state that no commit has recorded"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
