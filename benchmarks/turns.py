"""Sides that take turns at the same work, and what each costs in units of the first side of the same round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

Found = TypeVar("Found")


def in_turn(
    sides: Mapping[str, Callable[[int], Found]],
    rounds: int,
    *,
    items: int = 1,
    warm: int = 0,
    look: Callable[[int, str, Found], object] = lambda *_: None,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Return the seconds of each side in each round.

    Args:
        sides: what each does with item ``number``; the items are counted through all rounds, ``warm`` ones included.
        rounds: that count.
        items: of a round; the sides take turns at each.
        warm: rounds before, which do not count.
        look: sees the item, the side and what the side found, outside of the measurement.
        clock: the processor's by default.
    """
    took: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(warm + rounds):
        spent = dict.fromkeys(sides, 0.0)
        for number in range(turn * items, (turn + 1) * items):
            for side, work in sides.items():
                started = clock()
                found = work(number)
                spent[side] += clock() - started
                look(number, side, found)
        for side, seconds in spent.items() if turn >= warm else ():
            took[side].append(seconds)
    return took


def costs(took: Mapping[str, list[float]], title: str, *, items: int = 1) -> dict[str, list[float]]:
    """Print and return, of each side, the milliseconds of an item (median) and the cost: least, median, most."""
    result = {}
    for side, seconds in took.items():
        ratios = np.divide(seconds, next(iter(took.values())))
        middle = statistics.median(seconds) * 1e3 / items
        numbers = (middle, ratios.min(), float(np.median(ratios)), ratios.max())
        result[side] = [round(float(number), 2) for number in numbers]
        print(f"{title}, {side}: {numbers[0]:.2f} ms, {numbers[1]:.2f}-{numbers[2]:.2f}-{numbers[3]:.2f}", flush=True)
    return result
