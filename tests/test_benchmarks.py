"""Each benchmark runs in small."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys

import pytest


@pytest.mark.full
def test_each_part_of_the_gpu_benchmark_runs_in_small_on_a_cpu(repository):
    command = [sys.executable, "benchmarks/gpu.py", "--device", "cpu", "--tiny"]
    done = subprocess.run(command, cwd=repository, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"tests", "training", "scoring", "recipe", "features"} <= found.keys()
    assert not [part for part, numbers in found.items() if isinstance(numbers, dict) and "error" in numbers], (
        done.stdout
    )
    assert found["tests"]["failed"] == []
    assert found["recipe"]["recipe"] == "sample"
    losses = {side: numbers["first_losses"] for side, numbers in found["training"]["gru of 12, batch 8"].items()}
    assert losses["ours fp32"] == pytest.approx(losses["packed fp32"], rel=1e-5)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("encoding", {"sentences_a_second", "ratio_published"}),
        ("features", {"fp32 ratio", "fp32_difference_max"}),
        ("hypernyms", {"pairs_ratio", "plain_ratio"}),
        ("retrieval", {"ratio", "plain_cost", "order_cost"}),
        ("search", {"cosine 1", "start_seconds"}),
        ("semantics", {"ratio", "score_difference"}),
        ("training", {"ratio", "plain_ratio", "loss_difference"}),
    ],
)
def test_benchmark_agrees_with_its_peers_in_small(repository, real_data, name, keys):
    command = [sys.executable, f"benchmarks/{name}.py", "--tiny", "--threads", "1", "--data", str(real_data)]
    done = subprocess.run(command, cwd=repository, stdout=subprocess.PIPE, text=True, check=True)
    assert keys <= json.loads(done.stdout.splitlines()[-1]).keys()


def test_growth_measures_each_kind_at_both_sizes_in_small(repository, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["growth.py", "--tiny"])
    script = runpy.run_path(str(repository / "benchmarks/growth.py"))
    script["main"]()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {(line["kind"], line["who"], line["items"]) for line in lines}
    sides = {(kind, who) for kind in script["WORKS"] for who in ("ours", "peer")} - {("captions", "peer")}
    assert found == {(*side, items) for side in sides for items in (20, 40)}
