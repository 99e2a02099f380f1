"""The notebook of the documentation shows what its cells print."""

from __future__ import annotations

import json

import pytest
from notebook import alike, code_cells, run, shown


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("r 0.458\n", "r  0.459\n", True),
        ("r 0.458", "r 0.460", False),
        ("r 0.458", "s 0.458", False),
        ("r 0.458", "r 0.4581", False),
        ("-0.001 7", "0.000 7", True),
        ("(3, 512)", "(3, 511)", False),
        ("1\n2", "1", False),
    ],
)
def test_outputs_are_alike_up_to_the_last_decimal(one, other, same):
    assert alike(one, other) is same


@pytest.mark.slow
def test_cells_print_the_outputs_in_the_notebook(repository):
    path = repository / "docs/notebook.ipynb"
    cells = code_cells(json.loads(path.read_text()))
    assert all(shown(cell) for cell in cells)
    for cell, said in zip(cells, run(path), strict=True):
        assert alike(shown(cell), said), f"{said}\nrenew: python tests/support/notebook.py docs/notebook.ipynb"
