"""The table of docs/scale.md: what each size costs, by figures for one picture that were measured at smaller sizes.

Each figure has its source: a section of RESULTS.md where it was measured, or how it was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

SIZES = {"8 thousand": 8_000, "123 thousand": 123_287, "12 million": 12_000_000, "400 million": 400_000_000}
CAPTIONS = 5
PIECE_SECONDS = 10
SHARDS = 64


@dataclass(frozen=True)
class Figure:
    """What one picture costs."""

    value: float
    unit: str
    """Bytes, core s, GPU s, objects or requests."""
    source: str
    measured: bool = True


FIGURES = {
    "Picture files": Figure(20.15e9 / 123_287, "bytes", "the archives of COCO, 20.15 GB"),
    "Resized pictures": Figure(158e3, "bytes", "Resizing: Flickr8k, without loss"),
    "Features in the store": Figure(8_266, "bytes", "A store in object storage: 2,048 numbers"),
    "`features.h5`": Figure(4 * 2_048 + 64 + 31, "bytes", "numbers, sha256 and id", measured=False),
    "Stage corpus": Figure(60.32 / 123_287, "core s", "COCO's size"),
    "Stage resize": Figure(13.6e-3, "core s", "Resizing: Flickr8k"),
    "Stage captions": Figure(12.23 / 123_287, "core s", "COCO's size"),
    "Features, ResNet-152, ten crops, float32": Figure(2 * 0.543, "core s", "Features on a CPU: two cores"),
    "The same in bfloat16": Figure(2 * 0.270, "core s", "Features on a CPU: two cores"),
    "The same on a GPU": Figure(230e9 / (0.4 * 312e12), "GPU s", "230 GFLOP at 0.4 of 312 TFLOP/s", measured=False),
    "An epoch of training, 1,024 states": Figure(
        2 * 17.0e-3 * CAPTIONS, "core s", "Training: 17 ms a caption, two threads"
    ),
}


def table() -> str:
    """The costs of each size, in Markdown."""
    lines = [["", *SIZES, "a picture", "source"], ["---"] * (len(SIZES) + 3)]
    for name, figure in FIGURES.items():
        source = f"{'measured' if figure.measured else 'computed'}: {figure.source}"
        one = amount(figure.value, figure.unit)
        lines.append([name, *(amount(count * figure.value, figure.unit) for count in SIZES.values()), one, source])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
