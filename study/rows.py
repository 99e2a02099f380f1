"""The files of the rows, ``results/<topic>/<name>.json``: a recipe, what differs from it, and what its runs scored.

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
from sightword.io.files import read_json, write_text
from sightword.messages import and_more, quote
from sightword.settings import Settings, explain

FOLDER = "results"
"""The folder of the rows, in the project."""
SCHEMA = 1
_WORD = r"[A-Za-z0-9][A-Za-z0-9.-]*"
_KEY = re.compile(rf"({_WORD})/({_WORD})")


class Score(Settings):
    """One number; correlations are fractions, recall and accuracy are in percent."""

    value: float
    low: float | None = None
    """The lower end of the 95 % interval."""
    high: float | None = None
    sd: float | None = Field(default=None, ge=0.0)
    """The sample standard deviation over the seeds of the run, whose mean is ``value``."""

    @model_validator(mode="after")
    def _has_both_ends(self) -> Score:
        if (self.low is None) != (self.high is None) or (self.low or 0.0) > (self.high or 0.0):
            raise ValueError("expected both low and high, the lower one first, or neither")
        return self


class Run(Settings):
    """One run, or the mean of several that are known by it only."""

    seeds: list[int] = Field(min_length=1)
    commit: str | None = None
    """The project's commit."""
    date: str | None = None
    """The day, or the month, of the run."""
    processor: str | None = None
    packages: dict[str, str] = Field(default={})
    """The versions of the packages that compute, by name."""
    threads: int | None = None
    seconds: float | None = None
    """The stages that this row needs, together."""
    inputs: dict[str, str] = Field(default={})
    """DVC's hashes of the data that the run read and no stage made, by path, without notes such as ``.dvc`` files."""
    outputs: dict[str, str] = Field(default={})
    """DVC's hashes of what the stages made, by path."""
    scores: dict[str, Score] = Field(min_length=1)
    """The numbers by metrics file and the keys in it, joined by dots: ``retrieval.test.full.caption_to_image.r10``."""

    @model_validator(mode="after")
    def _is_sound(self) -> Run:
        for name, score in self.scores.items():
            if score.low is not None and score.high is not None and not score.low <= score.value <= score.high:
                ends = f"{score.low} to {score.high}"
                raise ValueError(f"{name}: the value {score.value} is outside of its 95 % interval, {ends}")
        if len(self.seeds) == 1 and any(score.sd is not None for score in self.scores.values()):
            raise ValueError("a run of one seed has no deviation over seeds (sd)")
        return self


class Row(Settings):
    """One row; ``topic`` and ``name`` are those of its file."""

    topic: str
    name: str
    recipe: str | None
    """A recipe of the project; None where none makes the row, which the note then explains."""
    overrides: dict[str, Any] = Field(default={})
    """The parameters that differ from the recipe's, by full name, without seeds and titles.

    Where a further pipeline builds on another one, ``params.yaml`` is the recipe of the latter's parameter file, and
    ``params.yaml:section.key`` a parameter that differs from it."""
    private: dict[str, str] = Field(default={})
    """The inputs that not everybody can have, by path, each with a sentence on its origin."""
    note: str | None = None
    """A sentence that a reader of the row needs."""
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
        """The row's name with its topic: ``ngrams/one-network``."""
        return f"{self.topic}/{self.name}"

    @property
    def hashed(self) -> bool:
        """Whether all runs have the hashes of their inputs and outputs."""
        return all(run.inputs and run.outputs for run in self.runs)

    @property
    def seeds(self) -> list[int]:
        """The seeds of all runs."""
        return [seed for run in self.runs for seed in run.seeds]


def split_key(key: str) -> tuple[str, str]:
    """Return topic and name of ``topic/name``; ParamsError for another text."""
    found = _KEY.fullmatch(key)
    if found is None:
        expected = "TOPIC/NAME, of letters, digits, - and ."
        raise ParamsError(f"{quote(key)} names no row of results", expected=expected)
    return found[1], found[2]


def path_of(project: Path, key: str) -> Path:
    """Return the file of a row; ParamsError where the key is not ``topic/name``."""
    topic, name = split_key(key)
    return project / FOLDER / topic / f"{name}.json"


def read_row(path: Path) -> Row:
    """Read the file of a row.

    Raises:
        FileFormatError: it is missing, is not JSON, or has other keys or values than a row; each has a line.
        ParamsError: the names of file and folder are not those of a row.
    """
    topic, name = split_key(f"{path.parent.name}/{path.stem}")
    values = read_json(path)
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        raise FileFormatError("is not a row of results", where=path, expected=f'an object with "schema": {SCHEMA}')
    own = {key: value for key, value in values.items() if key != "schema"}
    try:
        if strange := own.keys() & {"topic", "name"}:
            raise FileFormatError(f"{min(strange)}: no such key", where=path, expected="the file's own name only")
        return Row.model_validate({**own, "topic": topic, "name": name})
    except ValidationError as error:
        problems = dict.fromkeys(explain(Row, item) for item in error.errors())
        what = "\n  ".join(["is not a row of results:", and_more(problems, 20, between="\n  ")])
        raise FileFormatError(what, where=path) from None


def rows(project: Path) -> dict[str, Row]:
    """Return all rows of a project by ``topic/name``, in the order of the names; errors are those of read_row."""
    found = (read_row(path) for path in sorted((project / FOLDER).glob("*/*.json")))
    return {row.key: row for row in found}


def write_row(project: Path, row: Row) -> Path:
    """Write the file of a row, and return its path."""
    path = path_of(project, row.key)
    write_text(path, text_of(row))
    return path


def text_of(row: Row) -> str:
    """Return the text of the file of a row: runs in the order of their seeds, private inputs in that of their paths."""
    values = row.model_dump(exclude={"topic", "name"}, exclude_defaults=True)
    values["runs"].sort(key=lambda run: run["seeds"])
    if row.private:
        values["private"] = {path: row.private[path] for path in sorted(row.private)}
    return _spelt({"schema": SCHEMA, **values}) + "\n"


def _spelt(value: Any, line: str = "\n") -> str:
    """Return a value as JSON, a key a line, with a score or a list of plain values on one line."""
    inner = f"{line}  "
    if isinstance(value, Mapping) and value and "value" not in value:
        keys = (f"{json.dumps(key, ensure_ascii=False)}: {_spelt(one, inner)}" for key, one in value.items())
        return f"{{{inner}{f',{inner}'.join(keys)}{line}}}"
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        return f"[{inner}{f',{inner}'.join(_spelt(one, inner) for one in value)}{line}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
