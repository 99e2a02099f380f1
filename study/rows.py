"""Rows of results: ``results/<topic>.jsonl`` has a row a line, a recipe with what differs from it and its runs' scores.

A row has a run for each seed. Where only the mean over several seeds is known, one run has them all, and its scores
have a standard deviation. What is not known of a run is absent.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from sightword.errors import FileFormatError, ParamsError
from sightword.io.files import loads, read_text, write_text
from sightword.messages import and_more, quote, short
from sightword.settings import Settings, explain

FOLDER = "study/results"
_KEY = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*)/([A-Za-z0-9][A-Za-z0-9.-]*)")


class Score(Settings):
    """One number; correlations are fractions, recall and accuracy are in percent."""

    value: float
    low: float | None = None
    """The ends of the 95 % interval."""
    high: float | None = None
    sd: float | None = Field(default=None, ge=0.0)
    """The sample standard deviation over the seeds of the run, whose mean is ``value``."""

    @model_validator(mode="after")
    def _has_both_ends(self) -> Score:
        if (self.low is None) != (self.high is None) or (self.low or 0.0) > (self.high or 0.0):
            raise ValueError("expected both low and high, the lower one first, or neither")
        return self


class Run(Settings):
    """One run, or the mean of several runs."""

    seeds: list[int] = Field(min_length=1)
    commit: str | None = None
    date: str | None = None
    processor: str | None = None
    packages: dict[str, str] = Field(default={})
    threads: int | None = None
    seconds: float | None = None
    inputs: dict[str, str] = Field(default={})
    """DVC's hashes of the data that no stage made, by path, without notes such as ``.dvc`` files."""
    outputs: dict[str, str] = Field(default={})
    scores: dict[str, Score] = Field(min_length=1)
    """The numbers by metrics file and the keys in it, joined by dots: ``retrieval.test.full.caption_to_image.r10``."""

    @model_validator(mode="after")
    def _scores_fit(self) -> Run:
        for name, score in self.scores.items():
            if score.low is not None and score.high is not None and not score.low <= score.value <= score.high:
                ends = f"{score.low} to {score.high}"
                raise ValueError(f"{name}: the value {score.value} is outside of its 95 % interval, {ends}")
        if len(self.seeds) == 1 and any(score.sd is not None for score in self.scores.values()):
            raise ValueError("a run of one seed has no deviation over seeds (sd)")
        return self


class Row(Settings):
    """One row, the line of ``name`` in the file of ``topic``."""

    topic: str
    name: str
    recipe: str | None
    """The name of a recipe; None where none makes the row, which the note then explains."""
    overrides: dict[str, Any] = Field(default={})
    """The parameters that differ from the recipe's, by full name, without seeds and titles.

    Where a further pipeline builds on another one, ``params.yaml`` is the recipe of the latter's parameter file, and
    ``params.yaml:section.key`` a parameter that differs from it."""
    private: dict[str, str] = Field(default={})
    """The inputs that not everybody can have, by path, each with a sentence on its origin."""
    note: str | None = None
    runs: list[Run] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_explained(self) -> Row:
        if self.recipe is None and not self.note:
            raise ValueError("a row without a recipe needs a note on how it was made")
        seeds = Counter(seed for run in self.runs for seed in run.seeds)
        if doubled := [seed for seed, count in seeds.items() if count > 1]:
            raise ValueError(f"the runs have a seed twice: {and_more(doubled)}")
        return self

    @property
    def key(self) -> str:
        """The row's topic and name: ``ngrams/base``."""
        return f"{self.topic}/{self.name}"

    @property
    def hashed(self) -> bool:
        """Whether all runs have the hashes of their inputs and outputs."""
        return all(run.inputs and run.outputs for run in self.runs)

    @property
    def seeds(self) -> list[int]:
        """The seeds of all runs, in order."""
        return sorted(seed for run in self.runs for seed in run.seeds)


def split_key(key: str) -> tuple[str, str]:
    """Return topic and name of ``topic/name``; ParamsError for another text."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise ParamsError(f"{quote(key)} names no row", expected="TOPIC/NAME, of letters, digits, - and .")
    return match[1], match[2]


def read_topic(path: Path) -> dict[str, Row]:
    """Read the rows of a file by ``topic/name``; FileFormatError with the line of a row that is wrong."""
    rows: dict[str, Row] = {}
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), 1):
        where = f"{path}:{number}"
        try:
            row = Row.model_validate({**loads(line), "topic": path.stem})
        except ValidationError as error:
            problems = dict.fromkeys(explain(Row, item) for item in error.errors())
            what = "\n  ".join(["is not a row of results:", and_more(problems, 20, between="\n  ")])
            raise FileFormatError(what, where=where) from None
        except (ValueError, TypeError) as error:
            raise FileFormatError(f"is not a row of results: {short(error)}", where=where) from None
        if row.key in rows:
            raise FileFormatError(f"the row {row.name} stands twice", where=where)
        split_key(row.key)
        rows[row.key] = row
    return rows


def read_rows(project: Path) -> dict[str, Row]:
    """Read all rows of a project by ``topic/name``, in the order of topics and names."""
    paths = sorted((project / FOLDER).glob("*.jsonl"))
    return {key: row for path in paths for key, row in read_topic(path).items()}


def find_row(project: Path, key: str) -> Row:
    """Return a row by its key; ParamsError for an unknown one."""
    topic, _ = split_key(key)
    path = project / FOLDER / f"{topic}.jsonl"
    rows = read_topic(path) if path.is_file() else {}
    if key not in rows:
        raise ParamsError("no such row", where=key, todo="`python -m study list` lists all.")
    return rows[key]


def write_row(project: Path, row: Row) -> Path:
    """Write a row into the file of its topic, and return the file's path."""
    path = project / FOLDER / f"{row.topic}.jsonl"
    rows = read_topic(path) if path.is_file() else {}
    write_text(path, text_of({**rows, row.key: row}))
    return path


def text_of(rows: Mapping[str, Row]) -> str:
    """Return the text of the file of a topic: rows by name, runs by seed, private inputs by path."""
    lines = []
    for _, row in sorted(rows.items()):
        values = row.model_dump(exclude={"topic"}, exclude_defaults=True)
        values["runs"].sort(key=lambda run: run["seeds"])
        if row.private:
            values["private"] = {path: row.private[path] for path in sorted(row.private)}
        lines.append(json.dumps(values, ensure_ascii=False, allow_nan=False))
    return "".join(f"{line}\n" for line in lines)
