from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pipeline.lineage.page import lay_out

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
