"""Facts that every earlier version wrote, kept in ``older_facts``, are read with what they have."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.lineage.evidence import Records
from pipeline.lineage.facts_schema import SCHEMA
from pipeline.lineage.lock import Entry, read_lock

OLDER = Path(__file__).parent / "older_facts"
JUDGE = "extra/dvc.yaml:judge"


def entry(stage: str) -> Entry:
    name, prefix = ("extra-lock.yaml", "extra/dvc.yaml:") if stage == JUDGE else ("lock.yaml", "")
    return read_lock((OLDER / name).read_text(), name, prefix).entries[stage]


def remade(stage: str, path: str, **values: object) -> Entry:
    """Return an entry with another output."""
    made = entry(stage)
    return replace(made, outs=tuple(replace(out, **values) if out.path == path else out for out in made.outs))


def test_every_earlier_schema_has_a_fixture() -> None:
    schemas = {json.loads(path.read_text())["schema"] for path in OLDER.glob("schema-*/*.json")}
    assert schemas == {*range(1, SCHEMA)}


@pytest.mark.parametrize(
    ("schema", "stage"), [("1-key", "make"), ("1", "make"), ("2", "make"), ("2", JUDGE), ("3", "make"), ("3", JUDGE)]
)
def test_run_of_an_earlier_version_is_recorded(schema: str, stage: str, tmp_path: Path) -> None:
    records = Records([OLDER / f"schema-{schema}"], tmp_path)
    found = records.weigh(entry(stage))
    assert (found.verdict, found.why[:25]) == ("run recorded in", "facts of a run on lab-7, ")
    assert ("of data/made they have sizes alone" in found.why) == ((schema, stage) == ("2", "make"))
    run = records.facts.of(entry(stage))
    assert run is not None
    assert (run["engine"], run["notes"]) == ("torch", {"weights": "random:0"})


@pytest.mark.parametrize(
    ("schema", "change", "verdict"),
    [
        ("1-key", {"md5": "0" * 32}, "never seen to run"),
        ("1", {"md5": "0" * 32}, "contradicted"),
        ("2", {"md5": "0" * 32}, "run recorded in"),  # the facts have the size alone
        ("2", {"size": 12}, "contradicted"),
        ("3", {"md5": "0" * 32}, "contradicted"),
    ],
)
def test_facts_of_an_earlier_version_contradict(
    schema: str, change: dict[str, object], verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (OLDER / f"schema-{schema}").glob("*.json"):
        facts = json.loads(path.read_text())
    monkeypatch.setattr("sightword.machine.processor", lambda: facts["processor"])
    monkeypatch.setenv("SIGHTWORD_THREADS", str(facts["threads"]))
    monkeypatch.setattr("importlib.metadata.version", facts["packages"].__getitem__)
    found = Records([OLDER / f"schema-{schema}"], tmp_path).weigh(remade("make", "data/made", **change))
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("name", "value"), [("device", "NVIDIA H200 (CUDA 13.0, cuDNN 91300)"), ("threads", 64), ("inference", "openvino")]
)
def test_run_on_another_kind_of_machine_contradicts_nothing(
    name: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    for path in (OLDER / "schema-3").glob("*.json"):
        facts = json.loads(path.read_text())
        (tmp_path / "runs" / path.name).write_text(json.dumps({**facts, name: value}))
    monkeypatch.setattr("sightword.machine.processor", lambda: facts["processor"])
    monkeypatch.setenv("SIGHTWORD_THREADS", str(facts["threads"]))
    monkeypatch.setattr("importlib.metadata.version", facts["packages"].__getitem__)
    found = Records([tmp_path / "runs"], tmp_path).weigh(remade("make", "data/made", md5="0" * 32))
    assert found.verdict == "not repeated on this kind of machine"


@pytest.mark.parametrize("schema", ["1-key", "1", "2", "3"])
def test_edited_facts_of_an_earlier_version_are_no_evidence(
    schema: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(OLDER / f"schema-{schema}", tmp_path / "runs")
    for path in (tmp_path / "runs").iterdir():
        text = path.read_text().replace('"factor": 0.1', '"factor": 0.2').replace('"host": "lab-7",', "")
        path.write_text(text)
    assert Records([tmp_path / "runs"], tmp_path).weigh(entry("make")).verdict == "never seen to run"
    assert caplog.text.count("edited, so not used as facts of runs") == 1
