"""Whether disk and memory are enough for what the parameters ask for."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from pipeline.doctor import needs
from pipeline.doctor.context import Situation
from pipeline.doctor.corpus_size import CorpusSize, measure
from pipeline.doctor.findings import Note, good, problem, warning
from pipeline.doctor.formats import size
from pipeline.doctor.storage import folders, nearest
from sightword import machine
from sightword.errors import SetupError

TIGHT = 0.8
"""Share of the free room from which on it is tight: other things grow meanwhile."""
MEMORY = Path("/proc/meminfo")
GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)
"""Limits of a container, and what is in use of them; new and old layout."""


def look_at_disk(situation: Situation) -> Iterator[Note]:
    """What a run writes, disk by disk, against what is free."""
    corpus = measure(situation)
    if corpus is None:
        if situation.settings is not None:
            yield warning(
                "how much disk a run takes is not known: nothing of the corpus is here", "Get the data first."
            )
        return
    places = folders(situation)
    wanted: dict[int, list[tuple[str, str, float]]] = {}
    for place, what, count in _amounts(situation, corpus):
        device = nearest(places[place]).stat().st_dev
        wanted.setdefault(device, []).append((place, what, count))
    for amounts in wanted.values():
        yield _on_one_disk(amounts, places, corpus)
    if not wanted:
        yield good("all stages have run with these parameters: no more disk is needed")


def _amounts(situation: Situation, corpus: CorpusSize) -> Iterator[tuple[str, str, float]]:
    """Place, name and bytes of what is not there yet."""
    assert situation.project is not None
    places = folders(situation)
    facts = situation.facts("dvc")
    links = facts.get("links") or []
    types = facts.get("cache_types") or ["reflink", "copy"]
    copied = next((kind for kind in types if kind == "copy" or kind in links), "copy") == "copy"
    for item in needs.disk(situation, corpus):
        if item.place not in places:
            continue
        done = _is_done(situation, item.stage)
        if item.place == "the project":
            there = _size_of(situation.project / item.path) if item.path else 0
            # A stage's earlier outputs are removed before it runs, from the project but not from the cache.
            if not (done and (there or not item.path)):
                yield "the project", item.what, max(0.0, item.bytes - there) if copied else 0.0
            if item.path and not done:
                yield "DVC's cache", item.what, item.bytes
        elif not done:
            yield item.place, item.what, item.bytes


def _is_done(situation: Situation, stage: str) -> bool:
    """Whether a stage has run with the parameters of now, and what it made is here or in the cache."""
    assert situation.project is not None
    if not situation.is_current(stage):
        return False
    outs = situation.facts("dvc").get("outs", [])
    here = {out["path"] for out in outs if out["cached"]}
    return all(
        out.path in here or (situation.project / out.path).exists() for out in situation.lock.entries[stage].outs
    )


def _size_of(path: Path) -> float:
    return float(sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))


def _on_one_disk(amounts: list[tuple[str, str, float]], places: dict[str, Path], corpus: CorpusSize) -> Note:
    names = list(dict.fromkeys(place for place, _, _ in amounts))
    total = sum(count for _, _, count in amounts)
    folder = nearest(places[names[0]])
    free = shutil.disk_usage(folder).free
    parts: dict[str, float] = {}
    for _, what, count in amounts:
        parts[what] = parts.get(what, 0) + count
    largest = sorted(parts.items(), key=lambda part: -part[1])[:4]
    detail = ", ".join(f"{what} {size(count)}" for what, count in largest if count)
    who = ", ".join(names)
    said = (
        f"{who} ({folder}): a run of {corpus.pictures} pictures ({corpus.how}) needs about {size(total)} more"
        f"{f' ({detail})' if detail else ''}, {size(free)} are free"
    )
    todo = (
        "Make room (`dvc gc --workspace` takes what no longer belongs to anything out of the cache), or use another "
        "disk: `dvc cache dir`, SIGHTWORD_STORE, SIGHTWORD_SCRATCH."
    )
    if total > free:
        return problem(said, todo)
    return warning(said, todo) if total > TIGHT * free else good(said)


def look_at_memory(situation: Situation) -> Iterator[Note]:
    """What the stages hold, against what is available."""
    corpus = measure(situation)
    free = available()
    if free is None or corpus is None:
        return
    try:
        here = machine.current()
    except SetupError:
        return  # told where the settings are looked at
    devices = situation.facts("torch").get("devices") or []
    number = int(here.device.partition(":")[2] or 0)
    card = devices[number] if here.device != "cpu" and number < len(devices) else None
    wanted = [one for one in needs.memory(situation, corpus, here) if not _is_done(situation, one.stage)]
    for one in wanted:
        yield from _held(one, free, card)
    if not wanted:
        yield good(f"the stages that take much have run with these parameters; {size(free)} are available")


def _held(one: needs.Memory, free: float, card: dict[str, float] | None) -> Iterator[Note]:
    count = one.bytes - (one.on_device if card else 0)
    said = f"the stage {one.stage} needs about {size(count)} of memory, {size(free)} are available"
    todo = {
        "resize": "Set SIGHTWORD_WORKERS lower.",
        "features": "Set SIGHTWORD_THREADS lower.",
        "train": "Lower train.batch or train.hidden, or end other programs.",
    }[one.stage]
    if count > free:
        yield problem(said, todo)
    else:
        yield warning(said, todo) if count > TIGHT * free else good(said)
    if card and one.on_device > card["free"]:
        yield warning(
            f"the stage {one.stage} needs about {size(one.on_device)} on {card['name']}, {size(card['free'])} are free",
            f"{todo} SIGHTWORD_DEVICE=cpu works on the processor.",
        )


def available() -> float | None:
    """Bytes that a new process may use, within the limits of a container; None where that is not known."""
    found: list[float] = []
    with contextlib.suppress(OSError):  # no Linux
        lines = [line.split() for line in MEMORY.read_text(encoding="ascii").splitlines()]
        found += [1024.0 * int(words[1]) for words in lines if words[0] == "MemAvailable:"]
    for limit, used in GROUPS:
        try:
            found.append(
                float(int(limit.read_text()) - int(used.read_text()) + _reclaimable(limit.with_name("memory.stat")))
            )
        except (OSError, ValueError):
            continue  # no such layout, or no limit
    return max(0.0, min(found)) if found else None


def _reclaimable(statistics: Path) -> int:
    """Bytes of files in memory, which give way when the room is needed."""
    for line in statistics.read_text(encoding="ascii").splitlines():
        name, _, count = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(count)
    return 0
