"""The stage plane: reads the taxonomy, and draws a few concepts as order-embeddings in the plane."""

from __future__ import annotations

import logging

from sightword.hypernyms.training.settings import PlaneSettings

log = logging.getLogger(__name__)

SETTINGS = PlaneSettings


def work(settings: PlaneSettings) -> None:
    """Embed a few concepts in the plane."""
    from sightword.hypernyms.data.storage import read_prepared
    from sightword.hypernyms.page.drawings import plane
    from sightword.hypernyms.page.plane import in_the_plane
    from sightword.io.files import atomic_folder, write_tsv

    points, edges, held = in_the_plane(read_prepared("data/hypernyms/taxonomy").taxonomy, settings)
    drawing = plane(points, edges)
    above = {name: [high for low, high in edges if low == name] for name in points}
    with atomic_folder("plots/hypernyms/plane") as folder:
        rows = [(name, *place, " ".join(above[name])) for name, place in points.items()]
        write_tsv(folder / "plane.tsv", ("concept", "x", "y", "hypernyms"), rows)
        (folder / "plane.svg").write_text(drawing.svg(), "utf-8")
        (folder / "plane.png").write_bytes(drawing.png())
    log.info("plane: %d concepts, %d direct edges; %.0f %% of all pairs are in order", len(points), len(edges), held)
