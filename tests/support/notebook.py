"""Runs the code of a notebook in one process; `python tests/support/notebook.py FILE` renews what its cells show."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

NUMBER = re.compile(r"-?\d+(?:\.(\d+))?")


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> str:
    """What the notebook shows below a cell."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


def run(path: Path) -> list[str]:
    """What each code cell prints, in the folder of the notebook."""
    cells = code_cells(json.loads(path.read_text()))
    names: dict[str, object] = {"__name__": "__main__"}
    said = []
    with contextlib.chdir(path.parent):
        for number, cell in enumerate(cells, start=1):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
            said.append(out.getvalue())
    return said


def alike(one: str, other: str) -> bool:
    """Whether two outputs differ by no more than 1 in the last decimal of a number; whole numbers must be equal."""
    if NUMBER.sub("#", one).split() != NUMBER.sub("#", other).split():
        return False
    for left, right in zip(NUMBER.finditer(one), NUMBER.finditer(other), strict=True):
        decimals = len(left[1] or "")
        most = 1.1 / 10**decimals if decimals else 0
        if len(right[1] or "") != decimals or abs(float(left[0]) - float(right[0])) > most:
            return False
    return True


def main() -> None:
    """Argument: the notebook."""
    path = Path(sys.argv[1])
    notebook = json.loads(path.read_text())
    for number, (cell, text) in enumerate(zip(code_cells(notebook), run(path), strict=True), start=1):
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}]
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
