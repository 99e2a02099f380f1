"""Short and long captions of one picture as queries: the rows and the drawing of the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sightword.io.files import read_table
from sightword.report.gallery import Captions
from sightword.report.inputs import TODO
from sightword.report.number_formats import count, percent, plain
from sightword.report.tables import Cell, Row, Table, quotes

SHOWN = 5
"""The number of pairs to show."""
ROWS = {
    "shorter": ("rank_shorter", "the picture, for the shorter caption"),
    "longer": ("rank_longer", "the picture, for the longer caption"),
    "longer_for_shorter": ("rank_of_longer", "the longer caption, for the shorter one"),
}
"""The column of each entry of the metrics, and its meaning."""


class Lengths(NamedTuple):
    """The section on lengths."""

    entry: Mapping[str, Any]
    """The entry ``lengths`` of ``metrics/retrieval.json``."""
    ranks: Mapping[str, list[int]]
    """The ranks of all pairs, by meaning."""
    pairs: Table
    """The pairs with the largest difference."""

    @property
    def table(self) -> Table:
        """The mean and the median rank of each kind."""
        rows = []
        for key, (_, meaning) in ROWS.items():
            one = self.entry.get(key, {})
            words, mean = percent(one.get("words")), percent(one.get("mean_rank"))
            rows.append(Row(meaning, [words, mean, plain(one.get("median_rank"))]))
        return Table("Ranks", ("rank of", "words", "mean", "median"), rows)


def read(path: Path, retrieval: Mapping[str, Any], captions: Captions) -> Lengths | None:
    """Read the table of pairs; None without any.

    Raises:
        FileFormatError: the file cannot be read.
    """
    if not path.exists():
        return None
    columns = ["split", "image_id", "shorter", "longer", "words_shorter", "words_longer"]
    ranks = [column for column, _ in ROWS.values()]
    table = read_table(path, [*columns, *ranks], todo=TODO)
    entry = retrieval.get(table["split"][0].as_py(), {}).get("lengths") if len(table) else None
    if not entry:
        return None
    shown = [
        Row(
            quotes(*(captions.text((row["image_id"], row[name])) for name in ("shorter", "longer"))),
            [
                Cell(str(row["words_shorter"]), [str(row["words_longer"])]),
                Cell(count(row["rank_shorter"]), [count(row["rank_longer"])]),
                count(row["rank_of_longer"]),
            ],
        )
        for row in table.slice(0, SHOWN).to_pylist()
    ]
    heads = ("captions", "words", "rank of the picture", "of the longer caption")
    pairs = Table("The shorter caption first, with the rank of each", heads, shown, style="worst")
    return Lengths(entry, {meaning: table[column].to_pylist() for column, meaning in ROWS.values()}, pairs)
