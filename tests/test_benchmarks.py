"""Benchmarks that take long, or a GPU, run in small."""

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
    losses = [side["first_losses"] for side in found["training"]["gru of 12, batch 8"].values()]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_growth_measures_each_kind_at_both_sizes_in_small(repository, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["growth.py", "--tiny"])
    script = runpy.run_path(str(repository / "benchmarks/growth.py"))
    script["main"]()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {(line["kind"], line["who"], line["items"]) for line in lines}
    sides = {(kind, who) for kind in script["WORKS"] for who in ("ours", "peer")} - {("captions", "peer")}
    assert found == {(*side, items) for side in sides for items in (20, 40)}
