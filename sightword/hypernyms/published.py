"""Published scores of hypernym prediction, by the protocol that they belong to."""

from __future__ import annotations

VENDROV, WILSON = "Vendrov et al. 2016", "Athiwaratkun & Wilson 2018"
LI, GANEA = "Li et al. 2019", "Ganea et al. 2018"

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
    "ganea2018": (
        "f1",
        [
            ("hyperbolic cones, 5 dimensions, 50 % of the closure", GANEA, 92.8),
            ("Poincare, 5 dimensions, 50 % of the closure", GANEA, 83.6),
            ("order-embeddings, 5 dimensions, 50 % of the closure", GANEA, 81.7),
        ],
    ),
}
"""By the protocol in ``taxonomy.json``: the metric, and (system, source, percent)."""
