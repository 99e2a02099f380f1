"""Each benchmark runs in small."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys

import fork_server
import pytest


@pytest.fixture
def run(repository, real_data, monkeypatch, capsys):
    """Runs a benchmark in this process, and returns the lines that it prints."""

    def call(name: str, *options: object) -> list[str]:
        words = [f"{name}.py", "--tiny", *(["--data", real_data] if name != "growth" else []), *options]
        monkeypatch.setattr("sys.argv", [*map(str, words)])
        monkeypatch.syspath_prepend(repository / "benchmarks")
        code: object = 0
        try:
            runpy.run_path(str(repository / f"benchmarks/{name}.py"), run_name="__main__")
        except SystemExit as ended:
            code = ended.code
        printed = capsys.readouterr().out
        assert not code, printed
        return printed.splitlines()

    return call


@pytest.mark.full
def test_each_part_of_the_gpu_benchmark_runs_in_small_on_a_cpu(repository, run, tmp_path, monkeypatch):
    command = [sys.executable, "benchmarks/gpu.py", "--device", "cpu", "--tiny", "--parts", "scoring"]
    done = subprocess.run(command, cwd=repository, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"ours, ranks, order", "ours, encode, bf16"} <= found["scoring"]["seconds"].keys()

    monkeypatch.setattr(sys, "executable", fork_server.python())
    for part in ("tests", "training", "recipe", "features"):
        run("gpu", "--device", "cpu", "--part", part, "--out", tmp_path / part)
        found[part] = json.loads((tmp_path / part).read_text())
    assert found["features"]
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
def test_benchmark_agrees_with_its_peers_in_small(run, name, keys):
    assert keys <= json.loads(run(name, "--threads", "1")[-1]).keys()


def test_growth_measures_each_kind_at_both_sizes_in_small(repository, run):
    lines = [json.loads(line) for line in run("growth")]
    found = {(line["kind"], line["who"], line["items"]) for line in lines}
    kinds = runpy.run_path(str(repository / "benchmarks/growth.py"))["WORKS"]
    sides = {(kind, who) for kind in kinds for who in ("ours", "peer")} - {("captions", "peer")}
    assert found == {(*side, items) for side in sides for items in (20, 40)}
