"""Published scores of all papers, as printed, each with its source and table, for comparison with a run."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

_FILES = {
    "retrieval": "retrieval.csv",
    "semantics": "semantics.csv",
    "sentences": "sentences.csv",
    "structure": "structure.csv",
    "transfer": "transfer.csv",
    "hypernyms": "hypernyms.csv",
    "entailment": "entailment.csv",
}
"""The files beside this module, by what is judged; the first lines of each say what its numbers are."""
_MISPRINTED = "misprinted "


@dataclass(frozen=True)
class PublishedRow:
    """One system's scores on one test set."""

    system: str
    setting: str
    """The test set, subtask or protocol; empty where a file has one only."""
    source: str
    """The paper, after that of the system if this is another one."""
    table: str
    """The place in the paper, and what it is about; empty if unknown."""
    note: str
    """What to know before the row is compared; empty for nothing."""
    scores: Mapping[str, float]
    """By measure; a score that was not reported is missing."""
    misprinted: Mapping[str, float]
    """Printed scores that are wrong; ``scores`` has the corrected ones."""

    @property
    def cited(self) -> str:
        """The source with the note, as pages print both."""
        return "; ".join(filter(None, (self.source, self.note)))


@functools.cache
def published(name: str) -> tuple[PublishedRow, ...]:
    """Return the rows of a key of :data:`_FILES`, such as ``retrieval``."""
    text = resources.files("sightword.evaluation.published").joinpath(_FILES[name]).read_text("utf-8")
    found = []
    for cells in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        system, setting, source, table, note = (
            cells.pop(name) for name in ("system", "setting", "source", "table", "note")
        )
        numbers = {column: float(cell) for column, cell in cells.items() if cell}
        wrong = {key.removeprefix(_MISPRINTED): numbers.pop(key) for key in [*numbers] if key.startswith(_MISPRINTED)}
        found.append(PublishedRow(system, setting, source, table, note, numbers, wrong))
    return tuple(found)
