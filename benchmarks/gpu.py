"""All that is to be known of a GPU, in one call of some minutes: tests, extraction, training steps, a whole recipe.

Each part runs in a process of its own, so that a part that fails stops no other:

- ``tests``: those marked ``gpu``;
- ``features``: ``benchmarks/gpu_features.py``;
- ``training``: a training step of captions and pictures beside packed and padded cuDNN layers, and one of SkipThought
  beside padded ones. The peers are those of ``training.py`` and ``grounded.py``, on the same batches from the same
  weights; with bf16 they run under torch's autocast. Ours is what the stages do, deterministic kernels included;
- ``scoring``: ranks of Flickr8k's size by cosine and by order similarity, and encoding;
- ``recipe``: the stages of a recipe up to ``select``: `flickr8k-infonce` where its data are at hand, else the sample.

The last line is JSON, which ``--out`` writes to a file too. `--device cpu --tiny` runs the same code in a minute.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared/data"
SECONDS = {"tests": 120, "features": 210, "training": 120, "scoring": 60, "recipe": 90}
"""The parts, and the time that each may take on a GPU."""
FLICKR8K = (
    ("flickr8k/Flickr8k.token.txt", "flickr8k"), ("flickr8k/Flickr_8k.trainImages.txt", "flickr8k"),
    ("flickr8k/Flickr_8k.devImages.txt", "flickr8k"), ("flickr8k/Flickr_8k.testImages.txt", "flickr8k"),
    ("flickr8k/features_densenet169.npy", "features"), ("flickr8k/features_densenet169.txt", "features"),
)  # fmt: skip
"""Files of the recipe, and their folders below data/raw."""
ROUNDS = 3


def tests(_: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "tests/gpu", "-n0", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout)
    last = done.stdout.strip().splitlines()[-1]
    return {"summary": last, "failed": re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)}


def features(arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "benchmarks/gpu_features.py"), "--device", arguments.device]
    line = "{}"
    with subprocess.Popen(
        [*command, *(["--tiny"] if arguments.tiny else [])], stdout=subprocess.PIPE, text=True
    ) as run:
        for line in run.stdout:
            print(line, end="", flush=True)
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, command)
    return json.loads(line)


def training(arguments: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    shapes = [(12, 8, "gru")] if arguments.tiny else [
        (1024, 100, "gru"), (1024, 100, "lstm"), (1024, 400, "gru"), (2048, 100, "gru"),
    ]  # fmt: skip
    for hidden, size, cell in shapes:
        found[f"{cell} of {hidden}, batch {size}"] = captions_step(arguments, hidden, size, cell)
    found["skipthought"] = text_step(arguments)
    return found


def captions_step(arguments: argparse.Namespace, hidden: int, size: int, cell: str) -> dict[str, Any]:
    """Milliseconds of a step and losses of each side, and the share of the peak."""
    import numpy as np
    import torch
    import training as peers

    from sightword.vse.training.settings import TrainSettings
    from sightword.vse.training.task import CaptionTask

    steps = 2 if arguments.tiny else 5
    pairs = peers.pairs_of(peers.texts(arguments.data, 60 if arguments.tiny else 1000))
    random = np.random.default_rng(2)
    batches = [random.choice(len(pairs.ids), size, replace=False) for _ in range(steps)]
    sides: dict[str, Callable[[Any], torch.Tensor]] = {}
    found: dict[str, Any] = {}
    for precision in ("fp32", "bf16"):
        device = use(arguments)
        settings = TrainSettings(
            hidden=hidden, batch=size, epochs=4, mask_padding=False, clip_images=None, clip_captions=None, cell=cell,
            precision=precision,
        )  # fmt: skip
        run = CaptionTask(settings, pairs, peers.TOKENS, device)
        run.encoders.train()
        sides[f"ours, {precision}"] = lambda rows, run=run: run.learn(rows, 1e-3, 0)
        for peer in ("packed", "padded"):
            network = peers.Published(run.encoders, hidden, packed=peer == "packed").to(device)
            sides[f"{peer}, {precision}"] = plain_step(network, pairs, device, bf16=precision == "bf16")
    losses = {side: [float(step(rows)) for rows in batches] for side, step in sides.items()}
    for step in sides.values():
        for rows in [*batches, *batches]:  # lengths are recorded when they come again
            step(rows)
    works = {side: lambda step=step: [step(rows) for rows in batches] for side, step in sides.items()}
    for side, times in in_turn(arguments, works).items():
        seconds = statistics.median(times) / steps
        useful = peers.flops_a_caption(pairs, hidden) * size / seconds * (4 / 3 if cell == "lstm" else 1)
        peak = peak_of("bf16" if "bf16" in side else "fp32", arguments)
        found[side] = {"ms": seconds * 1e3, "share": useful / peak, "first_losses": losses[side][:3]}
    return found


def peak_of(precision: str, arguments: argparse.Namespace) -> float:
    """The operations a second that the device can do; unbounded in small, since CPUs without bfloat16 take minutes."""
    from peak import peak_flops

    return math.inf if arguments.tiny else peak_flops(precision, use(arguments))


def plain_step(network: Any, pairs: Any, device: Any, *, bf16: bool) -> Callable[[Any], Any]:
    """A step of a user's own code: torch's autocast, its fused Adam beside padded rows; the loss is not waited for."""
    import torch
    import training as peers

    adam = torch.optim.Adam(network.parameters(), lr=1e-3, fused=not network.packed)

    def step(rows: Any) -> torch.Tensor:
        ids, lengths = peers.pad([pairs.ids[row] for row in rows])
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            scores = network(ids, lengths, torch.from_numpy(pairs.features[rows]))
        right = torch.eye(len(rows), dtype=torch.bool, device=device)
        loss = peers.hinge(scores.float(), right, margin=0.2, reduction="mean")
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.detach()

    return step


def text_step(arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of a step of SkipThought, and the share of the peak."""
    import torch

    import grounded as peers
    from sightword.grounded.skipthought.settings import SkipthoughtSettings
    from sightword.grounded.skipthought.task import TextTask

    device = use(arguments)
    small = {"hidden": 16, "embedding": 8, "batch": 16} if arguments.tiny else {}
    text = peers.text_of(arguments.data, 2000 if small else peers.SENTENCES)
    batches = list(itertools.islice(peers.batches(text, SkipthoughtSettings(**small), seed=0), 2 if small else 5))
    sides: dict[str, Callable[[], Any]] = {}
    places = peers.padded
    peers.padded = lambda text, numbers: [values.to(device) for values in places(text, numbers)]
    changes = {"fp32": {}, "bf16": {"precision": "bf16"}, "layer norm": {"precision": "bf16", "layer_norm": "frozen"}}
    for name, change in changes.items():
        run = TextTask(SkipthoughtSettings(**small, **change), text, device)
        sides[f"ours, {name}"] = lambda run=run: [run.learn(middles, 0) for middles in batches]
        if name == "layer norm":
            continue
        with device:
            step = peers.published_step(run, device)

        def work(step: Any = step, change: Any = change) -> None:
            with device, torch.autocast(device.type, torch.bfloat16, enabled=bool(change)):
                for middles in batches:
                    step(middles)

        sides[f"padded, {name}"] = work
    for _ in range(2):
        for work in sides.values():
            work()
    found = {}
    settings = SkipthoughtSettings(**small)
    operations = statistics.mean(peers.operations(text, middles, settings) for middles in batches)
    for side, times in in_turn(arguments, sides).items():
        seconds = statistics.median(times) / len(batches)
        peak = peak_of("fp32" if "fp32" in side else "bf16", arguments)
        found[side] = {"ms": seconds * 1e3, "share": operations / seconds / peak}
    return found


def scoring(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds of ranks and of encoding, on the device and on the CPU."""
    import numpy as np
    import torch
    import training as peers

    from sightword.evaluation.retrieval.ranks import rank
    from sightword.model.embedding import embed_captions
    from sightword.model.encoders import CaptionEncoder
    from sightword.model.settings import ModelSettings

    device, random = use(arguments), np.random.default_rng(0)
    pictures, width = (20, 16) if arguments.tiny else (1000, 1024)
    images, captions = (np.abs(random.normal(size=(count, width))) for count in (pictures, 5 * pictures))
    owners, sides = np.repeat(np.arange(pictures), 5), {}
    for similarity in ("cosine", "order"):
        sides[f"ranks, {similarity}"] = lambda how=similarity: rank(captions, images, owners, how, device=device)
    rows = peers.texts(arguments.data, 30 if arguments.tiny else 5000)
    shape = ModelSettings(**({"hidden": 8, "attention": 4} if arguments.tiny else {})).shape
    network = CaptionEncoder(peers.TOKENS, shape).to(device).eval()
    for precision in ("fp32", "bf16"):
        sides[f"encode, {precision}"] = lambda precision=precision: embed_captions(network, rows, precision=precision)
    found = {side: statistics.median(times) for side, times in in_turn(arguments, sides).items()}
    torch.set_grad_enabled(True)
    return {"seconds": found, "captions": len(rows)}


def recipe(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds of the stages of a recipe up to the selection on dev, and recall@10 there."""
    at_hand = not arguments.tiny and all((arguments.data / name).is_file() for name, _ in FLICKR8K)
    name = "flickr8k-infonce" if at_hand else "sample"
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        for each in ("recipes", "data", *(path.name for path in ROOT.glob("*.yaml"))):
            (shutil.copytree if (ROOT / each).is_dir() else shutil.copy)(ROOT / each, project / each)
        environment = {
            **os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "SIGHTWORD_DEVICE": arguments.device, "SIGHTWORD_SCRATCH": f"{folder}/scratch",
            "SIGHTWORD_STORE": f"{folder}/store",
        }  # fmt: skip

        def python(*words: str) -> float:
            started = time.perf_counter()
            subprocess.run([sys.executable, "-m", *words], cwd=project, env=environment, check=True)
            return time.perf_counter() - started

        python("pipeline.cli", "recipe", name, "--force")
        if at_hand:
            for file, place in FLICKR8K:
                (project / "data/raw" / place).mkdir(exist_ok=True)
                shutil.copy(arguments.data / file, project / "data/raw" / place)
        if arguments.tiny:
            print("tiny: the recipe sample with 40 + 12 + 12 pictures, one crop and 2 epochs", flush=True)
            params, scenes = project / "params.yaml", project / "data/raw/sample/scenes.yaml"
            params.write_text(params.read_text().replace("epochs: 4", "epochs: 2").replace("crops: ten", "crops: one"))
            scenes.write_text(scenes.read_text().replace(": 320", ": 40", 1).replace(": 120", ": 12"))
        stages = ("corpus", *(() if at_hand else ("resize",)), "features", "captions", "train", "select")
        seconds = {stage: python("stages", stage) for stage in stages}
        table = (project / "plots/train/recall.tsv").read_text().splitlines()
        return {"recipe": name, "seconds": seconds, "recall": [table[0], table[-1]]}


def use(arguments: argparse.Namespace) -> Any:
    """Set torch up as a stage does, and return the device."""
    from sightword import machine
    from sightword.compute import devices

    return devices.use(replace(machine.current(), device=arguments.device))


def in_turn(arguments: argparse.Namespace, sides: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of each side, which take turns, after one call of each; peers in torch's own mode, ours as stages do."""
    import torch

    def timed(side: str, work: Callable[[], Any]) -> float:
        device = use(arguments)
        if not side.startswith(("ours", "ranks", "encode")):
            torch.set_deterministic_debug_mode("default")
            torch.backends.cudnn.benchmark = True
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - started

    rounds = [
        {side: timed(side, work) for side, work in sides.items()} for _ in range(2 if arguments.tiny else ROUNDS + 1)
    ]
    for number, times in enumerate(rounds):
        print(f"round {number}: " + ", ".join(f"{side} {seconds:.3f} s" for side, seconds in times.items()), flush=True)
    return {side: [times[side] for times in rounds[1:]] for side in sides}


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "tests": tests, "training": training, "features": features, "recipe": recipe, "scoring": scoring,
}  # fmt: skip


def run_group(command: list[str], seconds: float | None) -> None:
    """Run a program; after so many seconds end it with all that it started, which would keep the GPU."""
    with subprocess.Popen(command, start_new_session=True) as child:
        try:
            code = child.wait(seconds)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
    if code:
        raise subprocess.CalledProcessError(code, command)


def run_parts(arguments: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Yield the result of each part, or its error, with its seconds."""
    for part in arguments.parts:
        started = time.perf_counter()
        words = ["--device", arguments.device, "--data", str(arguments.data), *(["--tiny"] if arguments.tiny else [])]
        with tempfile.NamedTemporaryFile() as file:
            command = [sys.executable, __file__, "--part", part, "--out", file.name, *words]
            try:
                run_group(command, None if arguments.tiny else SECONDS[part])
                found = json.load(file)
            except subprocess.SubprocessError as error:
                found = {"error": str(error)}
        yield part, {**found, "part_s": time.perf_counter() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("SIGHTWORD_TEST_DATA") or DATA)
    parser.add_argument("--data", type=Path, default=data, help="the folder of flickr8k and books")
    parser.add_argument("--device", default="cuda")
    small = "small networks, and a part of the sample whatever data are at hand: a minute, also on a CPU"
    parser.add_argument("--tiny", action="store_true", help=small)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--part", choices=PARTS, help="this part alone, in this process")
    parser.add_argument("--out", type=Path, help="a file for the JSON, written after each part")
    arguments = parser.parse_args()
    if arguments.part:
        arguments.out.write_text(json.dumps(PARTS[arguments.part](arguments)))
        return
    import torch

    on_gpu = arguments.device != "cpu"
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu", "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version() if on_gpu else None,
    }  # fmt: skip
    for part, found in run_parts(arguments):
        result[part] = found
        if arguments.out:
            arguments.out.write_text(json.dumps(result, indent=1))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
