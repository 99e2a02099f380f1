"""Merges lock files as git merges lines, with the entry of a stage as the unit."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.lineage.lock import Entry, Lock, is_code, read_lock, split
from sightword.errors import LineageError
from sightword.evaluation.ledger import FILE

SIDES = ("the common ancestor's", "ours", "theirs")
"""The three lock files, as messages name them."""

NEW = "new"
"""The value of an input that neither side had: git merges it, or a stage will make it."""

Input = tuple[str, str]
"""The kind of an input, and its name."""


class _UndecidedError(Exception):
    """Both sides changed an input, and nothing says what the merge has."""


@dataclass
class Merged:
    """The result of :func:`merge_locks`."""

    text: str
    conflicts: list[str] = field(default_factory=list)
    """Stages that both sides changed: both entries are between conflict markers in the text."""
    left_out: list[str] = field(default_factory=list)
    """Stages that both sides changed, and neither with the inputs of the merge: the text has no entry of them."""


def merge_locks(base: str, ours: str, theirs: str) -> Merged:
    """Merge the texts of three lock files.

    git alone merges lines, which can join inputs and outputs of two runs. Of an entry that both sides changed, the
    inputs are merged: the entry that has these inputs is taken; where neither has them, the stage never ran so, and has
    no entry.

    Raises:
        LineageError: one of the three is not laid out as DVC writes it.
    """
    heads, blocks, locks = [], [], []
    for name, text in zip(SIDES, (base, ours, theirs), strict=True):
        head, found = split(text)
        locks.append(read_lock(text, f"dvc.lock, {name}"))
        if [stage for stage, _ in found] != list(locks[-1].entries):
            raise LineageError("is not laid out as DVC writes it", where=f"dvc.lock, {name}")
        heads.append(head)
        blocks.append(dict(found))
    choice = _Choice(locks, blocks)
    merged = Merged(heads[1] or heads[2])
    for stage in dict.fromkeys([*blocks[1], *blocks[2]]):
        _, own, other = (one.get(stage, "") for one in blocks)
        side = choice.of(stage)
        if side is None:
            merged.text += f"<<<<<<< ours\n{own}=======\n{other}>>>>>>> theirs\n"
            merged.conflicts.append(stage)
        elif side:
            merged.text += blocks[side].get(stage, "")
        else:
            merged.left_out.append(stage)
    return merged


class _Choice:
    """The side from which each stage's entry comes: 1 ours, 2 theirs, 0 neither, None for a conflict."""

    def __init__(self, locks: Sequence[Lock], blocks: Sequence[Mapping[str, str]]) -> None:
        self._locks, self._blocks = locks, blocks
        self._found: dict[str, int | None] = {}

    def of(self, stage: str) -> int | None:
        if stage not in self._found:
            self._found[stage] = None  # of stages that build on each other in a circle
            self._found[stage] = self._chosen(stage)
        return self._found[stage]

    def _chosen(self, stage: str) -> int | None:
        before, own, other = (one.get(stage, "") for one in self._blocks)
        if other in (own, before):
            return 1
        if own == before:
            return 2
        if not own or not other:
            return None
        sides = [_inputs(lock.entries.get(stage)) for lock in self._locks]
        try:
            wanted = {name: self._input(name, *(one.get(name) for one in sides)) for name in {**sides[1], **sides[2]}}
        except _UndecidedError:
            return None
        wanted = {name: value for name, value in wanted.items() if value is not None}
        fitting = [side for side in (1, 2) if sides[side] == wanted]
        return None if len(fitting) == 2 else fitting[0] if fitting else 0

    def _input(self, name: Input, before: str | None, own: str | None, other: str | None) -> str | None:
        """Return the value of an input in the merge; a new one where it is made by merging, or by a run to come."""
        kind, path = name
        makers = {maker.name for lock in self._locks[1:] if kind == "dep" and (maker := lock.producer(path))}
        sides = {self.of(maker) for maker in makers}
        if None in sides or len(sides) > 1:
            raise _UndecidedError
        for side in sides:
            return (NEW, own, other)[side or 0]
        if other in (own, before):
            return own
        if own == before:
            return other
        if kind == "dep" and (is_code(path) or posixpath.basename(path) == FILE):
            return NEW
        raise _UndecidedError


def _inputs(entry: Entry | None) -> dict[Input, str]:
    """Return the command, parameters and hashes of dependencies of an entry, as texts."""
    if entry is None:
        return {}
    params = {("param", name): json.dumps(value, sort_keys=True) for name, value in entry.flat_params().items()}
    return {("cmd", ""): entry.command} | params | {("dep", one.path): one.md5 for one in entry.deps}
