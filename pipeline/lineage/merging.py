"""Merging ``dvc.lock`` by whole entries; git alone merges lines, which can join inputs and outputs of two runs."""

from __future__ import annotations

from pipeline.lineage.lock import read_lock
from sightword.errors import LineageError


def merge_locks(base: str, ours: str, theirs: str) -> tuple[str, list[str]]:
    """Merge three lock files as git merges lines, with the entry of a stage as the unit.

    Args:
        base: the text of the common ancestor; empty where it had no lock.
        ours: the text of the branch that is merged into.
        theirs: the text of the other branch.

    Returns:
        The merged text, and the stages that both sides changed. Both entries of such a stage are in the text, between
        conflict markers.

    Raises:
        LineageError: one of the three is not laid out as DVC writes it.
    """
    texts = {"the common ancestor's": base, "ours": ours, "theirs": theirs}
    (_, old), (head, mine), (other_head, others) = (_entries(text, f"dvc.lock, {name}") for name, text in texts.items())
    merged, conflicts = [head or other_head], []
    for name in dict.fromkeys([*mine, *others]):
        before, own, other = old.get(name, ""), mine.get(name, ""), others.get(name, "")
        if other in (own, before):
            merged.append(own)
        elif own == before:
            merged.append(other)
        else:
            merged.append(f"<<<<<<< ours\n{own}=======\n{other}>>>>>>> theirs\n")
            conflicts.append(name)
    return "".join(merged), conflicts


def _entries(text: str, where: str) -> tuple[str, dict[str, str]]:
    """The lines before the first entry, and those of each entry by its stage."""
    head, name = "", ""
    found: dict[str, str] = {}
    for line in text.splitlines(keepends=True):
        if line.startswith("  ") and not line.startswith("   "):
            name = line.strip().removesuffix(":").strip("'\"")
        elif not line.startswith(" "):
            name = ""
        if name:
            found[name] = found.get(name, "") + line
        else:
            head += line
    if list(found) != list(read_lock(text, where).entries):
        raise LineageError("is not laid out as DVC writes it", where=where)
    return head, found
