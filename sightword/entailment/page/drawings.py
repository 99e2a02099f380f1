"""Draws the accuracy by the length of a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sightword.report.drawing import BLUE, GREY, ORANGE, WIDTH, Drawing, drawing_style
from sightword.report.number_formats import FEW
from sightword.statistics.inference import interval_ends

LOOKS = ((BLUE, "o"), (ORANGE, "s"), (GREY, "^"))


def lengths(name: str, systems: Mapping[str, Mapping[str, Any]], xlabel: str) -> Drawing:
    """Draw the accuracy in each range of words with enough pairs, with its 95 % interval, of at most three systems.

    Args:
        name: the property, such as ``premise_words``, and the name of the drawing.
        systems: by the name in the legend, the scores of a system (:func:`sightword.entailment.judging.judging.judge`).
        xlabel: the label of the ranges.
    """
    with drawing_style(name):
        figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
        axes = figure.add_subplot()
        ranges = [words for words, one in next(iter(systems.values()))[name].items() if one["pairs"] >= FEW]
        for place, ((label, scores), (colour, marker)) in enumerate(zip(systems.items(), LOOKS, strict=False)):
            values = [scores[name][one] for one in ranges]
            accuracies = np.array([value["accuracy"] for value in values])
            ends = np.array([interval_ends(value["accuracy"], value["accuracy_ci95"]) for value in values])
            axes.errorbar(
                np.arange(len(ranges)) + 0.12 * (place - 1),
                accuracies,
                yerr=np.abs(ends.reshape(-1, 2) - accuracies[:, None]).T,
                fmt=marker,
                color=colour,
                label=label,
                markersize=5,
                elinewidth=1.3,
            )
        axes.set_xticks(range(len(ranges)), ranges)
        axes.set_xlabel(xlabel)
        axes.set_ylabel("accuracy (%)")
        figure.legend(loc="outside upper center", ncols=3, fontsize=8)
        return Drawing(name, f"Accuracy by {xlabel}.", figure)
