"""The chart of the results has the numbers of the page's table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.results.records import rows
from tools.results_chart import CHARTS, DOSES, Bar, Chart, bars, draw, draw_doses

TABLE = """
text | 1.0 | 2.0 |

<!-- table: main -->

| system | there | back | STS |
| --- | --- | --- | --- |
| [published, a `GRU`](results/a.md) | 70.5 (± 1.3) | 79.3 (± 2.5) | 64.4 |
| n-grams, query bank †‡§¹ | 72.1 ± 0.5 | 81.6 ± 0.2 | 66.1 |
| tf-idf | – | – | 66.9 |
| untrained | chance | chance | 61.0 |

† A note | 1.0 | 2.0.
<!-- end -->
| after | 3.0 | 4.0 | 5.0 |
"""


def texts(svg: str) -> list[str]:
    return re.findall(r"<text [^>]*>([^<]+)</text>", svg)


def test_bars_are_the_rows_of_the_main_table_with_recall() -> None:
    assert bars(TABLE) == [Bar("published, a GRU", 70.5, 79.3), Bar("n-grams, query bank", 72.1, 81.6)]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.file.stem)
def test_chart_in_the_pages_has_each_name_and_number_of_the_table(repository: Path, chart: Chart) -> None:
    rows = bars((repository / chart.page).read_text("utf-8"), chart.tables)
    assert len(rows) >= 2
    committed = texts((repository / chart.file).read_text("utf-8"))
    assert committed == texts(draw(rows).svg()), "run `python -m tools.results_chart`"
    numbers = [f"{value:.1f}" for row in rows for value in row[1:]]
    assert [text for text in committed if re.fullmatch(r"\d+\.\d", text)] == numbers
    assert {row.system for row in rows} <= set(committed)
    assert "0" in committed
    assert "100" in committed


def test_chart_of_doses_has_the_points_of_the_rows(repository: Path) -> None:
    def points(svg: str) -> list[tuple[int, int]]:
        return [(round(float(x)), round(float(y))) for x, y in re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', svg)]

    committed, drawn = (repository / DOSES).read_text("utf-8"), draw_doses(rows(repository)).svg()
    assert texts(committed) == texts(drawn), "run `python -m tools.results_chart`"
    assert points(committed) == points(drawn)
    assert len(points(committed)) > 20
