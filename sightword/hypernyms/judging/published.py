"""Published scores of hypernym prediction, by the protocol that they belong to."""

from __future__ import annotations

VENDROV, WILSON = "Vendrov et al. 2016", "Athiwaratkun & Wilson 2018"
LI, GANEA = "Li et al. 2019", "Ganea et al. 2018"

_GANEA = {
    ("hyperbolic cones", 5): (29.2, 80.0, 87.1, 92.8),
    ("Poincare", 5): (29.4, 70.2, 78.2, 83.6),
    ("order-embeddings", 5): (34.4, 70.6, 75.9, 81.7),
    ("hyperbolic cones", 10): (32.2, 85.9, 91.0, 94.4),
    ("Poincare", 10): (28.9, 71.4, 82.0, 85.3),
    ("order-embeddings", 10): (43.0, 69.7, 79.4, 84.1),
}
"""Ganea et al. 2018, Table 1: F1 with 0, 10, 25 and 50 % of the pairs that are no edges in training. The released code
states the three rows of 5 dimensions at 50 %; the other numbers could not be compared with a copy of the paper."""

ROWS: dict[str, tuple[str, list[tuple[str, str, float]]]] = {
    "released": (
        "accuracy",
        [
            ("order-embeddings", VENDROV, 90.6),
            ("symmetric", VENDROV, 84.2),
            ("bilinear", VENDROV, 86.3),
            ("word2gauss", VENDROV, 86.6),
            ("transitive closure", VENDROV, 88.2),
            ("density order, KL", WILSON, 92.3),
            ("smoothed box", LI, 92.0),
        ],
    ),
    **{
        f"ganea2018-{share}": (
            "f1",
            [(f"{system}, {dimension} dimensions", GANEA, rows[place]) for (system, dimension), rows in _GANEA.items()],
        )
        for place, share in enumerate((0, 10, 25, 50))
    },
}
"""By the protocol in ``taxonomy.json``: the metric, and (system, source, percent). The rows of Athiwaratkun & Wilson
and of Li et al. could not be compared with a copy of their papers."""
