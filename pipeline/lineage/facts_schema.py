"""The form of facts, with the name of their file; facts of every earlier schema are read, with what they have.

Of schema 1, some facts know only the hash of their whole entry. Schema 2 has sizes of outputs, and hashes of those in
git. Up to schema 3, a stage was named without the folder of its pipeline.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pipeline.lineage.lock import Entry, entry_key, hashes, outs_key
from pipeline.pipelines import DVC_YAML

SCHEMA = 4
SIZE = " bytes"
"""The end of an output's size, which stands where facts have no hash."""


def facts_name(key: str, outs: Mapping[str, str]) -> str:
    """Return the name of the file with the facts of a run, by the key of its inputs and its outputs."""
    return f"{key}.{outs_key(outs)}.json"


def size(count: int | None, files: int | None) -> str:
    """Return the size of an output, a file or a folder with some files, in words."""
    return f"{count}{SIZE}" if files is None else f"{files} files, {count}{SIZE}"


def whole_key(entry: Entry) -> str:
    """Return the sha256 by which schema 1 named the facts of an entry: that of inputs and outputs."""
    name, outs = entry.name.rpartition(":")[2], hashes(entry.outs)
    return _whole_key(name, entry.command, entry.params, hashes(entry.deps), outs)


def current(facts: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return facts of any schema in the present form; None where they are not those of the file's name.

    Facts that know no inputs have no ``ran``, and keep the hash of :func:`whole_key`.

    Raises:
        KeyError, TypeError, AttributeError: no version wrote these values.
    """
    known, stage, schema = {"engine": "torch", **facts}, facts["stage"], facts["schema"]
    if schema == 1 and "ran" not in facts:
        return known if name == f"{facts['entry']}.json" else None
    ran, outs = dict(facts["ran"]), facts.get("outs", {})
    if schema == 1:
        outs = ran.pop("outs")
        wanted = f"{_whole_key(stage, **ran, outs=outs)}.json"
    elif schema == 2:
        wanted = f"{entry_key(stage, **ran)}.json"
        outs = {path: one.get("md5") or size(one["size"], one.get("files")) for path, one in outs.items()}
    else:
        wanted = facts_name(entry_key(stage, **ran), outs)
    if name != wanted:
        return None
    folders = {file.rpartition("/")[0] for file in ran["params"]} - {""}
    if schema < SCHEMA and len(folders) == 1:
        stage = f"{folders.pop()}/{DVC_YAML}:{stage}"
    return {**known, "stage": stage, "entry": entry_key(stage, **ran), "ran": ran, "outs": outs}


def _whole_key(
    stage: str, command: str, params: Mapping[str, Any], deps: Mapping[str, str], outs: Mapping[str, str]
) -> str:
    record = {"stage": stage, "cmd": command, "params": params, "deps": deps, "outs": outs}
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
