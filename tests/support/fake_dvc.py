"""Stands in for ``dvc`` in tests of sweeps: the same commands, git references and exit codes, and no pipeline.

What an experiment does is told by its ``train.margin``: 0.9 fails, 0.8 takes a minute, 0.7 finds a lock held twice, 0.6
leaves nothing, between 0.5 and 0.6 waits for another to begin, others take a moment. ``corpus.require_pictures: false``
fails in the stage ``corpus``. Each call is noted in the folder ``DVC_FAKE``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import yaml


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def note(**what: object) -> None:
    with (Path(os.environ["DVC_FAKE"]) / "calls.jsonl").open("a") as stream:
        stream.write(json.dumps(what) + "\n")


def _begun() -> int:
    lines = (Path(os.environ["DVC_FAKE"]) / "calls.jsonl").read_text().splitlines()
    return sum(json.loads(line).get("begun", ".shared").find(".shared") < 0 for line in lines if line.endswith("}"))


def experiment(name: str, stages: list[str]) -> int:
    params = yaml.load(Path("params.yaml").read_text(), yaml.CSafeLoader)
    began = time.time()
    environment = {name: value for name, value in os.environ.items() if name.startswith(("CUDA_VISIBLE", "SIGHTWORD_"))}
    sleeper = subprocess.Popen(["sleep", "60" if params["train"]["margin"] == 0.8 and not stages else "0.2"])
    note(begun=name, process=os.getpid(), child=sleeper.pid, folder=os.getcwd(), **environment)
    say(f"Running {name}")
    sleeper.wait()
    limit = time.monotonic() + 60
    while 0.5 < params["train"]["margin"] < 0.6 and not stages and time.monotonic() < limit and _begun() < 2:
        time.sleep(0.05)
    if params["train"]["margin"] == 0.7:
        held = Path(os.environ["DVC_FAKE"]) / "held"
        times = int(held.read_text()) if held.exists() else 0
        held.write_text(str(times + 1))
        if times < 2:
            say("ERROR: Unable to acquire lock. Most likely another DVC process is running")
            return 255
    if (params["train"]["margin"] == 0.9 and not stages) or not params["corpus"]["require_pictures"]:
        say("train: the loss explodes\nERROR: failed to reproduce 'train'")
        return 255
    if os.environ.get("DVC_FAKE_FACTS"):
        Path("runs").mkdir(exist_ok=True)
        Path(f"runs/{name}.json").write_text(Path(".dvc/config.local").read_text())
    Path("metrics.json").write_text(json.dumps({"margin": params["train"]["margin"]}))
    git("add", "-A")
    head = git("rev-parse", "HEAD")
    commit = git("commit-tree", git("write-tree"), "-p", head, "-m", name)
    if params["train"]["margin"] != 0.6:
        git("update-ref", f"refs/exps/{head[:2]}/{head[2:]}/{name}", commit)
    note(ended=name, began=began, end=time.time(), stages=stages, params=params, folder=os.getcwd())
    return 0


def main() -> int:
    match sys.argv[1:]:
        case ["cache", "dir"]:
            say(Path.cwd() / ".dvc" / "cache")
        case ["config", "--local", "cache.dir", cache]:
            with Path(".dvc/config.local").open("a") as stream:
                stream.write(f"[cache]\n    dir = {cache}\n")
        case ["exp", "show", "--json", "--rev", _]:
            say('[{"rev": "workspace"}]')
        case ["exp", "run", "--name", name, *stages]:
            return experiment(name, stages)
        case other:
            raise SystemExit(f"no such command: {other}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
