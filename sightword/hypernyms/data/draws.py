"""What differs from one random split of a taxonomy's closure to the next: wrong labels, leak, ceiling, closure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sightword.hypernyms.data.baselines import above_known, inferable
from sightword.hypernyms.data.corruption import PairSet
from sightword.hypernyms.data.pairs import ConceptPairs


def of_test(parts: Mapping[str, ConceptPairs], true: PairSet) -> dict[str, float]:
    """Return what one split says of its test pairs, in percent.

    Args:
        parts: the pairs of ``train``, ``dev`` and ``test``.
        true: the closure.

    Returns:
        Of the true pairs those that are training pairs too (``in_training``) and those that are direct edges
        (``direct``); of the false pairs those that the closure has (``mislabelled``), and of the false pairs with
        another hyponym (``mislabelled_hyponym``); the accuracy of a truthful classifier (``ceiling``) and of the
        transitive closure of training and dev (``closure``). A share of no pair is 0.
    """
    test, train = parts["test"], parts["train"]
    wrong = true.has(test.hyponyms, test.hypernyms) & ~test.labels
    tested, known = (one.hyponyms.astype(np.int64) * true.concepts + one.hypernyms for one in (test, train))
    known.sort()
    in_training = np.searchsorted(known, tested, "right") > np.searchsorted(known, tested)
    follows = inferable(test, above_known([train, parts["dev"]], true.concepts))
    shares = {
        "in_training": in_training[test.labels],
        "direct": test.direct[test.labels],
        "mislabelled": wrong[~test.labels],
        "mislabelled_hyponym": wrong[test.replaced == 1],
        "ceiling": ~wrong,
        "closure": follows == test.labels,
    }
    return {name: 100.0 * float(share.sum()) / max(len(share), 1) for name, share in shares.items()}


def spread(draws: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the ``number`` of draws, and of each key ``mean``, ``deviation``, ``lowest`` and ``highest``.

    The deviation is the standard deviation of one draw (with N - 1 below); 0 of a single draw.
    """
    found: dict[str, Any] = {"number": len(draws)}
    for name in draws[0]:
        values = np.array([one[name] for one in draws])
        numbers = (values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0, values.min(), values.max())
        named = zip(("mean", "deviation", "lowest", "highest"), numbers, strict=True)
        found[name] = {key: round(float(number), 4) for key, number in named}
    return found
