"""A share of the pictures, for many machines that need not know of each other."""

from __future__ import annotations

from dataclasses import dataclass

from sightword.errors import FeaturesError


@dataclass(frozen=True)
class Part:
    """Part ``index`` (from 1) of ``count``: which pictures are its is a pure function of their bytes."""

    index: int
    count: int

    def __contains__(self, sha256: str) -> bool:
        return int(sha256[:16], 16) % self.count == self.index - 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse_part(text: str) -> Part:
    """The part that a text such as ``3/8`` names.

    Raises:
        FeaturesError: it names none.
    """
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise FeaturesError(
            "no part of anything", where=f"--part {text}", expected="I/N with I from 1 to N, such as 3/8"
        )
    return Part(int(index), int(count))
