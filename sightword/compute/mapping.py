"""A map over files with the workers of a cluster."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence

from sightword.compute.ray_nodes import Requirements
from sightword.compute.ray_opening import opened
from sightword.compute.ray_workers import Size
from sightword.compute.workers import OrderedMap
from sightword.machine import Machine
from sightword.messages import plural

log = logging.getLogger(__name__)

LOOKED_AT = 16
"""Files that each node must see."""


@contextlib.contextmanager
def mapping(machine: Machine, paths: Sequence[str | None]) -> Iterator[OrderedMap | None]:
    """Yield a map over items of work that read the files; None without files, since then there is no work.

    Raises:
        SetupError: there is no cluster, or a node of it has other versions or does not see the files.
    """
    there = [path for path in paths if path is not None]
    if not there:
        yield None
        return
    with opened(machine) as cluster:
        requirements = Requirements.here(there[:: max(len(there) // LOOKED_AT, 1)])
        cluster.check(requirements, Size())
        log.info("%s, with room for %s", cluster, plural(cluster.slots(Size()), "worker"))
        yield functools.partial(cluster.ordered_map, requirements=requirements)
