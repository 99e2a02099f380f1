"""The history of every number: which parameters, code, data, weights and machine made it.

It reads ``dvc.lock`` and git as data, and needs neither DVC nor the data themselves.
"""

from typing import Any

from sightword._lazy import load

_LAZY = {
    "audit": "pipeline.lineage.chain",
    "verify": "pipeline.lineage.verification",
}
__all__ = ["audit", "verify"]


def __getattr__(name: str) -> Any:
    return load(__name__, _LAZY, name)
