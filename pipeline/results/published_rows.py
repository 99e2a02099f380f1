"""Published rows under the names that the metrics of a run have, for the tables of results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeline.results.records import Score
from sightword.errors import ParamsError
from sightword.evaluation.published.rows import PublishedRow, published
from sightword.messages import guess, quote


@dataclass(frozen=True)
class PublishedScores:
    """The scores of one published system, and what to know before the comparison; None for nothing."""

    scores: Mapping[str, Score]
    note: str | None


def published_scores(names: Mapping[str, str], *, where: str) -> PublishedScores:
    """Return the scores of a system, whose rows may stand in several files.

    Args:
        names: by the name of a file of published scores the system, or ``system | setting``.
        where: the place of the names, for messages.

    Raises:
        ParamsError: there is no such file, system or setting.
    """
    scores: dict[str, Score] = {}
    notes: dict[str, None] = {}
    for file, name in names.items():
        system, _, setting = (part.strip() for part in name.partition("|"))
        if file not in _READERS:
            what = f"no such file of published rows: {quote(file)}"
            raise ParamsError(what, where=where, expected=f"one of {', '.join(_READERS)}")
        rows = published(file)
        found = [row for row in rows if row.system == system and setting in ("", row.setting)]
        if not found:
            near = guess(name, [f"{row.system} | {row.setting}" for row in rows])
            raise ParamsError(f"no such published row: {quote(name)}{near}", where=where)
        scores |= _READERS[file](found)
        notes |= dict.fromkeys(row.note for row in found if row.note)
    return PublishedScores(scores, "; ".join(notes) or None)


def _retrieval(rows: list[PublishedRow]) -> dict[str, Score]:
    keys = {column: column.replace(" ", ".") for row in rows for column in row.scores}
    return {
        f"retrieval.test.full.{keys[name]}": Score(value=value) for row in rows for name, value in row.scores.items()
    }


def _semantics(rows: list[PublishedRow]) -> dict[str, Score]:
    """Return fractions, with the mean over the subtasks of STS12-16 where all are known."""
    found = {}
    for row in rows:
        r, up, down = (row.scores.get(name, 0.0) / 100 for name in ("r", "up", "down"))
        key = f"semantics.{row.setting.replace(' ', '.')}.pearson"
        found[key] = Score(value=r, low=r - down, high=r + up) if up else Score(value=r)
    subtasks = [one.value for key, one in found.items() if key.startswith("semantics.STS1")]
    return found | ({"summary.sts": Score(value=statistics.fmean(subtasks))} if len(subtasks) == 24 else {})


def _sentences(rows: list[PublishedRow]) -> dict[str, Score]:
    """Return Pearson's r on STS Benchmark and Spearman's mean over the seven tasks, as fractions."""
    keys = {"pearson": "semantics.STSBenchmark.cosine.pearson", "spearman_mean": "summary.seven"}
    return {keys[name]: Score(value=value / 100) for row in rows for name, value in row.scores.items()}


def _hypernyms(rows: list[PublishedRow]) -> dict[str, Score]:
    """Return the scores as ``published.NAME``, or as ``SETTING.NAME`` where the rows are of several settings."""
    several = len({row.setting for row in rows}) > 1
    names = {row.setting: row.setting if several else "published" for row in rows}
    return {f"{names[row.setting]}.{name}": Score(value=value) for row in rows for name, value in row.scores.items()}


def _entailment(rows: list[PublishedRow]) -> dict[str, Score]:
    names = {"order-embeddings": "order"}
    return {
        f"entailment/evaluate.test.{names.get(row.system, row.system)}.{name}": Score(value=value)
        for row in rows
        for name, value in row.scores.items()
    }


def _structure(rows: list[PublishedRow]) -> dict[str, Score]:
    """Return the scores as fractions, as ``published.NAME``."""
    return {f"published.{name}": Score(value=value / 100) for row in rows for name, value in row.scores.items()}


_READERS: Mapping[str, Callable[[list[PublishedRow]], dict[str, Score]]] = {
    "retrieval": _retrieval,
    "semantics": _semantics,
    "sentences": _sentences,
    "hypernyms": _hypernyms,
    "entailment": _entailment,
    "structure": _structure,
}
