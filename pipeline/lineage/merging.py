"""Merging ``dvc.lock`` by whole entries; git alone merges lines, which can join inputs and outputs of two runs."""

from __future__ import annotations

from pipeline.lineage.lock import read_lock, split
from sightword.errors import LineageError


def merge_locks(base: str, ours: str, theirs: str) -> tuple[str, list[str]]:
    """Merge the texts of three lock files as git merges lines, with the entry of a stage as the unit.

    Returns:
        The merged text, and the stages that both sides changed: both entries are between conflict markers in the text.

    Raises:
        LineageError: one of the three is not laid out as DVC writes it.
    """
    heads, entries = [], []
    for name, text in (("the common ancestor's", base), ("ours", ours), ("theirs", theirs)):
        head, blocks = split(text)
        if [stage for stage, _ in blocks] != list(read_lock(text, f"dvc.lock, {name}").entries):
            raise LineageError("is not laid out as DVC writes it", where=f"dvc.lock, {name}")
        heads.append(head)
        entries.append(dict(blocks))
    merged, conflicts = [heads[1] or heads[2]], []
    for stage in dict.fromkeys([*entries[1], *entries[2]]):
        before, own, other = (one.get(stage, "") for one in entries)
        if other in (own, before):
            merged.append(own)
        elif own == before:
            merged.append(other)
        else:
            merged.append(f"<<<<<<< ours\n{own}=======\n{other}>>>>>>> theirs\n")
            conflicts.append(stage)
    return "".join(merged), conflicts
