"""Whether each stage gives the same bytes again while other processes load the machine.

Every stage of a project (default: the sample) is run RUNS times in a temporary copy, for each precision it has and
with 1 and 2 threads, while busy processes come and go. Every second run of `features` has a store that earlier runs
filled, the others have an empty one. Prints the number of distinct outputs. The exit code is 1 where a stage had more
than one output, or other outputs with 2 threads than with 1, which only `train` may have.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

from sightword.io.files import sha256_file

REPOSITORY = Path(__file__).resolve().parent.parent
THREADS = (1, 2)
SAFE = YAML(typ="safe", pure=True)


def copy_project(project: Path, folder: Path) -> None:
    """Copy all files that git does not ignore, and link the raw data that DVC has brought."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=project, check=True, capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (project / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project / name, folder / name)
    for path in sorted((project / "data" / "raw").iterdir()):
        if not (folder / "data" / "raw" / path.name).exists():
            (folder / "data" / "raw" / path.name).symlink_to(path)


@contextlib.contextmanager
def changing_load(most: int) -> Iterator[None]:
    """Keep up to ``most`` busy processes, of which one starts or ends every few moments."""
    stop, draw = threading.Event(), random.Random(0)

    def work() -> None:
        busy: list[subprocess.Popen[bytes]] = []
        while not stop.wait(draw.uniform(0.1, 3)):
            if len(busy) < draw.randint(0, most):
                busy.append(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
            elif busy:
                end(busy.pop(draw.randrange(len(busy))))
        for process in busy:
            end(process)

    def end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def outputs(folder: Path, stage: dict) -> str:
    """Return one sha256 of all files that a stage wrote."""
    found = hashlib.sha256()
    for item in [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]:
        place = folder / (item if isinstance(item, str) else next(iter(item)))
        files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
        for path in files:
            found.update(f"{path.relative_to(folder)} {sha256_file(path)}\n".encode())
    return found.hexdigest()


def run(folder: Path, name: str, params: str, threads: int, store: Path) -> None:
    """Run a stage by itself, as DVC would."""
    count = str(threads)
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("DVC_")},
        "SIGHTWORD_DEVICE": "cpu",
        "SIGHTWORD_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "SIGHTWORD_STORE": str(store),
        "SIGHTWORD_SCRATCH": str(folder / ".scratch"),
    }
    environment.pop("OMP_NUM_THREADS", None)
    command = [sys.executable, "-m", "stages", name, "--quiet", "--params", params]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")


def repeat(folder: Path, name: str, stage: dict, runs: int) -> dict[tuple[str, int], set[str]]:
    """Return a stage's distinct outputs by precision and threads; those of the project's own precision are left."""
    values = SAFE.load((folder / "params.yaml").read_text())
    own = values[name].get("precision")
    found: dict[tuple[str, int], set[str]] = {}
    for precision in [*sorted({own, "fp32", "bf16"} - {own}), own] if own else [None]:
        params = f".{precision or 'own'}.yaml"
        with (folder / params).open("w") as file:
            SAFE.dump({**values, name: {**values[name], **({"precision": precision} if own else {})}}, file)
        for threads in THREADS:
            for number in range(runs):
                shutil.rmtree(folder / ".stores" / "empty", ignore_errors=True)
                run(folder, name, params, threads, folder / ".stores" / ("warm" if number % 2 else "empty"))
                found.setdefault((precision or "-", threads), set()).add(outputs(folder, stage))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", type=Path, default=REPOSITORY, help="a project (default: this repository)")
    parser.add_argument("--runs", type=int, help="of each stage, precision and number of threads (default: 20)")
    parser.add_argument("--stages", help="only these, such as train,select; those before run once")
    parser.add_argument("--load", type=int, help="most busy processes beside a stage (default: one more than CPUs)")
    parser.add_argument("--quick", action="store_true", help="3 runs, and 4 epochs of training")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # busy processes and the copy go with it
    runs, differ = arguments.runs or (3 if arguments.quick else 20), 0
    with tempfile.TemporaryDirectory(prefix="equal-bytes-") as temporary:
        folder = Path(temporary)
        copy_project(arguments.project, folder)
        values = SAFE.load((folder / "params.yaml").read_text())
        if arguments.quick:
            values["train"]["epochs"] = 4
            with (folder / "params.yaml").open("w") as file:
                SAFE.dump(values, file)
        stages = SAFE.load((folder / "dvc.yaml").read_text())["stages"]
        chosen = arguments.stages.split(",") if arguments.stages else list(stages)
        if unknown := set(chosen) - set(stages):
            sys.exit(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(stages)}")
        print(f"{'stage':10} {'precision':9} threads  runs  distinct outputs", flush=True)
        busy = len(os.sched_getaffinity(0)) + 1 if arguments.load is None else arguments.load
        with changing_load(busy):
            for name, stage in stages.items():
                if name not in chosen:
                    run(folder, name, "params.yaml", THREADS[-1], folder / ".stores" / "warm")
                    continue
                found = repeat(folder, name, stage, runs)
                for (precision, threads), kinds in found.items():
                    together = set().union(*(found[precision, count] for count in THREADS))
                    by_threads = threads == THREADS[-1] and len(together) > len(kinds) and name != "train"
                    note = f"  DIFFERS{' from 1 thread' * by_threads}" if by_threads or len(kinds) > 1 else ""
                    differ += bool(note)
                    print(f"{name:10} {precision:9} {threads:7}  {runs:4}  {len(kinds)}{note}", flush=True)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
