"""Published structure, relatedness and transfer of grounded encoders: Tables 1 and 3, Figure 3 of Bordes et al. (2019).

Two means of Table 3 are misprinted, and corrected here: GS-Cap's eight accuracies have the mean 78.9, where 78.4 is
printed, the number of GS-Both; T + CM's have 81.2, where 81.1 is printed. All others agree to rounding.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

SOURCE = "Bordes et al. 2019"
TRANSFER = ("MR", "CR", "SUBJ", "MPQA", "MRPC", "SST2", "SNLI", "SICKEntailment")
"""The tasks of the published mean, in the order of Table 3; SST in the paper is SST2, SICK is SICKEntailment."""


@dataclass(frozen=True)
class PublishedRow:
    """One row of a table."""

    name: str
    """As in the paper, such as ``C_g + P_g``; ``T + ...`` goes on with the text's loss."""
    scores: Mapping[str, float]
    """By measure, as printed: all times 100."""
    misprinted: Mapping[str, float]
    """Printed scores that are wrong; ``scores`` has the corrected ones."""


@functools.cache
def published_structure() -> tuple[PublishedRow, ...]:
    """Return Table 1: ``mnno``, ``rho_vis``, ``c_inter``, ``c_intra``; Spearman's correlations ``stsb``,
    ``stsb_captions``, ``stsb_news``, ``stsb_forums`` and ``sick``; then ``c_inter`` and ``c_intra`` of Figure 3.
    """
    return tuple(PublishedRow(name, scores, {}) for name, scores in _rows("structure"))


@functools.cache
def published_transfer() -> tuple[PublishedRow, ...]:
    """Return Table 3: the accuracies of :data:`TRANSFER`, ``MRPC_f1``, and ``transfer_mean``."""
    found = []
    for name, scores in _rows("transfer"):
        printed = scores.pop("mean")
        mean = sum(scores[task] for task in TRANSFER) / len(TRANSFER)
        misprinted = {} if abs(printed - mean) < 0.0501 else {"transfer_mean": printed}
        found.append(PublishedRow(name, scores | {"transfer_mean": round(mean, 1)}, misprinted))
    return tuple(found)


def _rows(table: str) -> list[tuple[str, dict[str, float]]]:
    text = resources.files("sightword.grounded.page").joinpath(f"published_{table}.csv").read_text("utf-8")
    lines = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [(row.pop("name"), {key: float(row[key]) for key in row if row[key]}) for row in lines]
