"""Prints the tables of benchmarks/RESULTS.md: what each size costs, by what a picture cost where it was measured.

Each figure has its source: a section of RESULTS.md, or how it was computed.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

SIZES = {"8 thousand": 8_000, "123 thousand": 123_287, "12 million": 12_000_000, "400 million": 400_000_000}
FEW, MANY = 8_000, 123_287
"""The sizes of the runs in RESULTS.md's section on COCO's size."""
FOUR = (4_000, 16_000, 64_000, 128_000)
"""The sizes at which RESULTS.md's section on scale has the memory of stages."""


@dataclass(frozen=True)
class Figure:
    """The cost of one picture, in bytes, hours (given in seconds) or a number."""

    name: str
    value: float
    unit: str
    source: str
    how: str = "times a picture's cost"

    def row(self) -> list[str]:
        """The cells of this figure."""
        source = f"{self.how}: {self.source}"
        return [self.name, *(amount(self.value * count, self.unit) for count in SIZES.values()), source]


def amount(value: float, unit: str) -> str:
    """A number of bytes, of seconds, or of something else."""
    if unit == "bytes":
        power = min(int(math.log10(value) / 3), 4)
        return f"{rounded(value / 1000**power)} {' kMGT'[power]}B"
    if unit == "seconds":
        part, name = next(((part, name) for part, name in ((3600, "h"), (60, "min")) if value >= 0.2 * part), (1, "s"))
        return f"{rounded(value / part)} {name}"
    return rounded(value)


def rounded(value: float) -> str:
    """Two digits, and thousands in groups."""
    return f"{float(f'{value:.2g}'):,.10g}"


def growth(few: float, many: float) -> float:
    """The cost of each further picture in the runs at COCO's size."""
    return (many - few) / (MANY - FEW)


def slope(*megabytes: float) -> float:
    """The bytes of each further picture, by least squares, of stages with the sizes of :data:`FOUR`."""
    return 1e6 * statistics.linear_regression(FOUR, megabytes).slope


COCO = "COCO's size", "slope of 8 and 123 thousand"
BELOW = "below", "slope of four sizes"
DISK = [
    Figure("picture files", 20.15e9 / MANY, "bytes", "COCO's archives"),
    Figure("resized pictures", 158e3, "bytes", "Flickr8k, without loss"),
    Figure("`features.h5`, 2,048 numbers", 8_192 + 64 + 27, "bytes", "numbers, sha256, id", "computed"),
    Figure("DVC's cache of both, without links", 158e3 + 8_192 + 64 + 27, "bytes", "a copy each", "computed"),
]
TIME = [
    Figure("corpus", growth(5.40, 60.32), "seconds", *COCO),
    Figure("resize", 13.6e-3, "seconds", "Resizing, Flickr8k"),
    Figure("features: ResNet-152, ten crops, float32", 2 * 0.543, "seconds", "Features on a CPU, two cores"),
    Figure("the same in bfloat16", 2 * 0.270, "seconds", "Features on a CPU, two cores"),
    Figure("the same, hours of a GPU", 230e9 / (0.4 * 312e12), "seconds", "230 GFLOP at 125 TFLOP/s", "computed"),
    Figure("decoding for any of the three", 1.9e-3, "seconds", "192 pictures of Flickr8k, one thread"),
    Figure("train: an epoch of 1,024 states", 2 * 5 * 17.0e-3, "seconds", "Training, 17 ms a caption, two threads"),
    Figure("`dvc add` of as many tiny files", (10.6 - 1.8) / 18_000, "seconds", "scale"),
    Figure("a look by `dvc repro` that runs nothing", growth(1.85, 8.53), "seconds", *COCO),
]
MEMORY = [
    Figure("corpus, five captions a picture", slope(85, 142, 222, 348), "bytes", *BELOW),
    Figure("features", growth(0.75e9, 0.92e9), "bytes", *COCO),
    Figure("captions, five a picture", slope(129, 184, 424, 735), "bytes", *BELOW),
    Figure("train, what it reads: 2,048 features, five captions", slope(162, 440, 1736, 2962), "bytes", *BELOW),
    Figure("`features.h5`, 2,048 numbers, where it is read", 8_562, "bytes", "scale"),
]
TABLES = {"disk": DISK, "core hours": TIME, "memory": MEMORY}


def tables() -> str:
    """All tables, in Markdown."""
    found = []
    for name, figures in TABLES.items():
        rows = [[name, *SIZES, "source"], ["---"] * (len(SIZES) + 2), *(figure.row() for figure in figures)]
        found.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(found)


if __name__ == "__main__":
    print(tables())
