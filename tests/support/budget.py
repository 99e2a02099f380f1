"""Lines of Python by room, and the budget in CONTRIBUTING.md, which `python tests/support/budget.py` writes anew."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PRODUCT = ("sightword", "pipeline", "stages")
OTHERS = ("study", "tests", "benchmarks", "tools")
SLACK = 1.05
_MARKED = re.compile(r"(<!-- budget -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def lines(repository: Path) -> dict[str, int]:
    """Lines by room: the folders of the product, its plain modules, and the folders beside the product."""
    found: Counter[str] = Counter()
    for package in (*PRODUCT, *OTHERS):
        for path in (repository / package).rglob("*.py"):
            inner = path.relative_to(repository).parts
            room = "/".join(inner[:2]) if package in PRODUCT[:2] and len(inner) > 2 else package
            found[room] += len(path.read_bytes().splitlines())
    return dict(sorted(found.items(), key=lambda one: ((*PRODUCT, *OTHERS).index(one[0].split("/")[0]), one[0])))


def allowed(repository: Path) -> dict[str, int]:
    """The budget by room."""
    text = _MARKED.search((repository / "CONTRIBUTING.md").read_text())
    assert text, "CONTRIBUTING.md has no table between <!-- budget --> and <!-- end -->"
    rows = re.findall(r"`([\w/]+)` ([\d,]+)", text[2])
    return {room: int(number.replace(",", "")) for room, number in rows}


def table(found: dict[str, int]) -> str:
    """The budget in Markdown: a line for each package."""
    rows = ["", "| part | lines of Python, by room |", "|---|---|"]
    product = 0
    for package in (*PRODUCT, *OTHERS):
        rooms = {room: number for room, number in found.items() if room.split("/")[0] == package}
        product += sum(rooms.values()) if package in PRODUCT else 0
        listed = ", ".join(f"`{room}` {number:,}" for room, number in rooms.items())
        rows.append(f"| {package}: {sum(rooms.values()):,} | {listed} |")
    return "\n".join([*rows, "", f"The product has {product:,}.", "", ""])


if __name__ == "__main__":
    page = REPOSITORY / "CONTRIBUTING.md"
    today = table(lines(REPOSITORY))
    page.write_text(_MARKED.sub(lambda found: found[1] + today + found[3], page.read_text()))
