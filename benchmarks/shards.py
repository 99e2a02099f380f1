"""Pictures in tar shards and the same pictures as loose files through the stages corpus and resize, in one run.

The pictures are those of a folder, such as Flickr8k's at 224 pixels, repeated with four other bytes at the end until
there are enough; each has one caption. The kinds take turns in processes of their own, which end before the next one
begins.

- loose: a folder for each hundredth of the pictures, and a table of captions;
- shards: a tar for each hundredth, with a text beside each picture.

The last line is JSON: pictures, seconds of processor time by kind and stage (workers included), ratio (shards to loose,
of both stages together), peak (the most memory of a stage with its workers, in MB, by kind and stage), same (whether
both kinds give the same pictures).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import psutil

from sightword.images.shards import list_pictures

SHARDS = 100
KINDS = {
    "loose": {"format": "table", "path": "raw", "pictures": "raw/pictures"},
    "shards": {"format": "shards", "path": "raw", "pictures": "raw"},
}
STAGES = {
    "corpus": "from sightword.corpus.settings import CorpusSettings as S; from stages import corpus as m",
    "resize": "from sightword.images.settings import ResizeSettings as S; from stages import resize as m",
}
RUN = "; import json, sys; m.work(S(**json.loads(sys.argv[1])))"


def main() -> None:
    """Make the pictures, run both stages on both kinds, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a folder of picture files")
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--stages", nargs="+", default=list(STAGES), choices=list(STAGES))
    arguments = parser.parse_args()
    found: dict[str, dict[str, tuple[float, float]]] = {}
    digests = []
    with tempfile.TemporaryDirectory(prefix="shards-") as scratch:
        for kind in KINDS:
            folder = Path(scratch, kind)
            make(kind, folder / "raw", sorted(arguments.source.iterdir()), arguments.pictures)
            settings = {"corpus": KINDS[kind], "resize": {}}
            found[kind] = {stage: measured(stage, settings[stage], folder) for stage in arguments.stages}
            print(kind, found[kind], flush=True)
            if "resize" in arguments.stages:
                digests.append(sorted(picture.sha256 for picture in list_pictures(folder / "data/resized")))
    seconds = {kind: {stage: round(cost[0], 1) for stage, cost in stages.items()} for kind, stages in found.items()}
    peak = {kind: {stage: round(cost[1]) for stage, cost in stages.items()} for kind, stages in found.items()}
    ratio = sum(seconds["shards"].values()) / sum(seconds["loose"].values())
    facts = {"pictures": arguments.pictures, "seconds": seconds, "ratio": round(ratio, 3), "peak": peak}
    print(json.dumps(facts | {"same": len(digests) == 2 and digests[0] == digests[1]}))


def make(kind: str, raw: Path, files: list[Path], count: int) -> None:
    """Write the pictures of a kind with their captions."""
    raw.mkdir(parents=True)
    rows = []
    for shard in range(SHARDS):
        name = f"{('train', 'dev', 'test')[shard % 3]}-{shard:05d}"
        with tarfile.open(raw / f"{name}.tar", "w") if kind == "shards" else io.BytesIO() as archive:
            for number in range(shard, count, SHARDS):
                data = files[number % len(files)].read_bytes() + number.to_bytes(4, "big")
                if isinstance(archive, tarfile.TarFile):
                    add(archive, f"{number:08d}.jpg", data)
                    add(archive, f"{number:08d}.txt", b"A picture .")
                else:
                    place = raw / "pictures" / name / f"{number:08d}.jpg"
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(data)
                    rows.append((f"{name}/{place.name}", "A picture .", name.partition("-")[0]))
    if kind == "loose":
        with open(raw / "captions.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("image", "caption", "split"), *rows])


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file to a tar."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def measured(stage: str, settings: dict[str, str], folder: Path) -> tuple[float, float]:
    """Run a stage; return its processor time in seconds and the most memory in MB, both with its workers."""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", STAGES[stage] + RUN, json.dumps(settings)]
    before = os.times()
    process = psutil.Popen(command, cwd=folder, env={**os.environ, "PYTHONPATH": paths})
    most = 0
    while process.poll() is None:
        try:
            family = [process, *process.children(recursive=True)]
            most = max(most, sum(one.memory_info().rss for one in family))
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.2)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, most / 1e6


if __name__ == "__main__":
    main()
