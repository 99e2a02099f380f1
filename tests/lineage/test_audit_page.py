from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from visible_text import visible_text

from pipeline.lineage.page import lay_out, write_page

GRAPHS = st.integers(1, 9).flatmap(
    lambda count: st.sets(st.sampled_from([(a, b) for a in range(count) for b in range(a)] or [(0, 0)])).map(
        lambda edges: {str(n): [str(b) for a, b in sorted(edges) if a == n and b != n] for n in range(count)}
    )
)


@given(GRAPHS)
def test_lines_go_forward_column_by_column_and_nothing_overlaps(graph):
    laid = lay_out(graph)
    assert set(laid.places) == set(graph)
    assert len(set(laid.places.values())) == len(graph)
    for name, read in graph.items():
        for source in read:
            assert laid.places[source][0] < laid.places[name][0]
    for line in laid.lines:
        columns = [column for column, _ in line]
        assert columns == list(range(columns[0], columns[0] + len(columns)))
    assert all(0 <= row <= laid.rows - 1 and 0 <= column < laid.columns for column, row in laid.places.values())


@given(GRAPHS)
def test_remaining_lines_of_the_graph_keep_all_dependencies(graph):
    laid = lay_out(graph)
    at = {place: name for name, place in laid.places.items()}
    drawn = {(at[line[0]], at[line[-1]]) for line in laid.lines}
    assert closure(drawn) == closure({(source, name) for name, read in graph.items() for source in read})


def closure(edges):
    found = set(edges)
    while True:
        more = {(a, d) for (a, b), (c, d) in itertools.product(found, found) if b == c} - found
        if not more:
            return found
        found |= more


def test_a_line_beside_a_longer_way_is_left_out():
    laid = lay_out({"raw": [], "middle": ["raw"], "end": ["raw", "middle", "elsewhere"]})
    assert len(laid.lines) == 2
    assert laid.columns == 3


def test_machine_and_versions_stand_once_and_again_where_a_stage_differs(tmp_path):
    stages = [_stage("end", "2.1"), _stage("middle", "2.1"), _stage("raw", "1.9")]
    found = {"what": "end", "path": None, "key": None, "value": None, "edited": False, "stage": "end", "read_by": []}
    found |= {"state": "ok", "revision": None, "stages": stages, "not_known": [], "scorings": []}
    write_page(tmp_path / "page.html", found)
    text = visible_text((tmp_path / "page.html").read_text())
    assert text.count("numpy 2.1") == 2  # in the line, and in the list of all packages
    assert text.count("numpy 1.9") == 2
    assert text.count("scipy 1.0") == 3  # not among the packages that differ
    assert "1 package of another version" in text
    assert text.count("run recorded in: facts of a run") == 3
    del stages[2]["run"]["packages"]["scipy"]
    write_page(tmp_path / "page.html", found)
    assert "2 packages of another version numpy 1.9, scipy none" in visible_text((tmp_path / "page.html").read_text())


def _stage(name, numpy):
    run = {"started": "2026-01-02T03:04:05+00:00", "host": "lab", "seconds": 1.5, "peak_memory_mb": 9, "threads": 2}
    run |= {"device": "cpu", "processor": "P", "python": "3.12.1", "packages": {"numpy": numpy, "scipy": "1.0"}}
    record = {"verdict": "run recorded in", "why": "facts of a run", "doubted": False}
    known = {"name": name, "state": "ok", "status": "ok", "command": name, "commit": None, "run": run, "record": record}
    return known | {"params": {}, "deps": [], "outs": [], "weights": {}, "changed_params": {}, "reasons": []}
