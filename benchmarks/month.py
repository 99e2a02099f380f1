"""What a month of a lab leaves behind: 50 experiments a day, from clones that share a store, a cache and a remote.

Real: a small sample, of which PEOPLE sweep SWEEP experiments each by `sightword sweep`, and push them.
Copied: to 50, 500 and 1,500 experiments, 50 from each commit. A copy is a real experiment with other hashes of all that
its stages wrote: its reference and commit in git, its facts, its entries in the run-cache, and a file of one line for
each of its outputs in the cache and in the remote. So numbers of files and references are those of real experiments,
and bytes are not: they are what one experiment of a recipe has (its ``dvc.lock``), times 1,500.

Each line is JSON. ``seconds`` are processor seconds of a command and all that it starts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from ruamel.yaml import YAML

from pipeline.lineage.evidence import run_id
from pipeline.lineage.lock import entry_key

REPOSITORY = Path(__file__).resolve().parent.parent
PEOPLE = ("ana", "ben", "eva")
SWEEP = 8
MONTH = (50, 500, 1_500)
DAY = 50
FEW = {
    "data/raw/sample/scenes.yaml": {
        "pictures": {"train": 24, "dev": 8, "test": 8},
        "pairs": {"scenes": 60, "details": 40, "sick": {"train": 60, "trial": 20, "test": 40}},
    },
    "params.yaml": {
        "features": {"crops": "one"},
        "train": {"epochs": 8, "cycle": 1, "hidden": 8, "batch": 8},
        "retrieval": {"top": 4},
    },
}
"""The sample made small; like the published recipe, with eight snapshots."""
GRID = "name: {name}\nblocks:\n  - train.seed: {seeds}\n"
HASH = re.compile(r"\b[0-9a-f]{32}\b")


class Lab:
    """Clones of one project, with their common places."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache, self.remote = folder / "cache", folder / "remote"
        self.store, self.hub = folder / "store", folder / "hub.git"
        self.clone = folder / PEOPLE[0]
        self.environment = os.environ | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "DVC_NO_ANALYTICS": "1", "DVC_SITE_CACHE_DIR": str(folder / "site"), "SIGHTWORD_DEVICE": "cpu",
            "SIGHTWORD_STORE": str(self.store), "SIGHTWORD_SCRATCH": str(folder / "scratch"), "SIGHTWORD_THREADS": "1",
        }  # fmt: skip
        for who in ("AUTHOR", "COMMITTER"):
            self.environment |= {f"GIT_{who}_NAME": "lab", f"GIT_{who}_EMAIL": "lab@example.org"}

    def run(self, *command: str, at: Path | None = None, text: str | None = None, ok: bool = True) -> str:
        """Run a command in a clone, and return its output."""
        done = subprocess.run(command, cwd=at or self.clone, env=self.environment, input=text, text=True,
                              capture_output=True, check=False)  # fmt: skip
        if ok and done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def measure(self, *command: str, **of: object) -> None:
        """Run a command, and print its processor seconds and its last line, or what `dvc gc` would remove."""
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        said = self.run(*command, ok=False)
        after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - started
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        lines = said.strip().splitlines() or [""]
        last = next((line for line in lines if line.startswith("Removed")), lines[-1])[:120]
        tell(command=" ".join(command), seconds=round(spent, 1), wall=round(wall, 1), last=last, **of)

    def sizes(self, **of: object) -> None:
        """Print numbers of files and bytes of all places."""
        refs = len(self.run("git", "for-each-ref", "refs/exps").splitlines())
        places = {"store": self.store, "cache": self.cache, "remote": self.remote, "hub": self.hub,
                  "git": self.clone / ".git", "tmp": self.clone / ".dvc/tmp", "runs": self.clone / "runs"}  # fmt: skip
        found = {name: [path.stat().st_size for path in place.rglob("*") if path.is_file()]
                 for name, place in places.items()}  # fmt: skip
        tell(refs=refs, **{name: [len(one), sum(one)] for name, one in found.items()}, **of)


def tell(**what: object) -> None:
    """Print a line of JSON."""
    print(json.dumps(what), flush=True)


def start(lab: Lab) -> None:
    """Make the first clone with its small project, run it, and push all."""
    lab.run("git", "clone", "-q", str(REPOSITORY), str(lab.clone), at=lab.folder)
    shutil.rmtree(lab.clone / ".git")  # without its history, which `dvc gc --all-commits` would read
    lab.run("git", "init", "-q", "-b", "main")
    lab.run("git", "add", "-A")
    lab.run("sightword", "recipe", "sample", "--force")
    yaml_files = YAML()
    for name, changes in FEW.items():
        document = yaml_files.load(lab.clone / name)
        merge(document, changes)
        yaml_files.dump(document, lab.clone / name)
    for name, place in (("cache", lab.cache), ("remote", lab.remote)):
        place.mkdir()
        lab.run("dvc", *(("cache", "dir") if name == "cache" else ("remote", "add", "-d", "lab")), str(place))
    lab.run("git", "commit", "-qam", "A small project")
    lab.run("dvc", "repro", "dvc.yaml")
    lab.run("git", "add", "-A")
    lab.run("git", "commit", "-qm", "First run")
    lab.run("git", "init", "-q", "--bare", str(lab.hub))
    lab.run("git", "remote", "add", "lab", str(lab.hub))
    lab.run("git", "push", "-q", "lab", "main")
    lab.run("dvc", "push", "-q", "--run-cache")


def merge(document: dict, changes: dict) -> None:
    """Change entries of nested mappings."""
    for key, value in changes.items():
        if isinstance(value, dict):
            merge(document[key], value)
        else:
            document[key] = value


def sweep(lab: Lab, number: int, count: int) -> None:
    """Let one person run a sweep, and push it."""
    name = PEOPLE[number]
    clone = lab.folder / name
    if number:
        lab.run("git", "clone", "-q", "-o", "lab", "-b", "main", str(lab.hub), str(clone), at=lab.folder)
        lab.run("dvc", "checkout", "-q", "dvc.yaml", at=clone)
    seeds = list(range(1 + number * count, 1 + (number + 1) * count))
    (lab.folder / f"{name}.yaml").write_text(GRID.format(name=name, seeds=seeds))
    before = lab.clone
    lab.clone = clone
    lab.measure("sightword", "sweep", f"../{name}.yaml", "--slots", "1", "--yes", experiments=count)
    lab.measure("dvc", "exp", "push", "-q", "lab", "--rev", "HEAD", experiments=count)
    lab.measure("dvc", "push", "-q", "--run-cache")
    lab.sizes(after=name)
    lab.clone = before


@dataclass
class Real:
    """A real experiment, and what it has left: the texts in git, in cache and run-cache, and its facts."""

    files: dict[str, str]
    made: dict[str, dict]
    lists: dict[str, list[dict[str, str]]]
    runs: list[str]
    facts: list[str]


def reals(lab: Lab, refs: Sequence[str]) -> list[Real]:
    """Read the real experiments of some references."""
    root = "".join(refs[0].split("/")[2:4])
    before = lab.run("git", "show", f"{root}:dvc.lock")
    runs = [path.read_text() for path in (lab.cache / "runs").glob("*/*/*")]
    facts = [path.read_text() for path in (lab.store / "runs").glob("*.json")]
    found = []
    for ref in refs:
        names = lab.run("git", "diff", "--name-only", root, ref).split()
        files = {name: lab.run("git", "show", f"{ref}:{name}") for name in names}
        outs = [out for stage in yaml.safe_load(files["dvc.lock"])["stages"].values() for out in stage["outs"]]
        made = {out["md5"]: out for out in outs if out["md5"] not in before}
        lists = {md5: json.loads((lab.cache / "files/md5" / md5[:2] / md5[2:]).read_text())
                 for md5, out in made.items() if "nfiles" in out}  # fmt: skip
        own = [[text for text in texts if any(md5 in text for md5 in made)] for texts in (runs, facts)]
        found.append(Real(files, made, lists, *own))
    return found


def copies(lab: Lab, real: Sequence[Real], have: int, wanted: int) -> None:
    """Copy experiments until there are so many, 50 from each commit."""
    stream = []
    for number in range(have, wanted):
        if number % DAY == 0:
            lab.run("git", "commit", "-q", "--allow-empty", "-m", f"Day {number // DAY}")
        base = lab.run("git", "rev-parse", "HEAD").strip()
        one = real[number % len(real)]
        new = renewed(lab, one)
        stream.append(f"commit refs/exps/{base[:2]}/{base[2:]}/copy{number}\ncommitter lab <lab@example.org> now\n"
                      f"data 4\ncopy\nfrom {base}\n")  # fmt: skip
        for name, text in one.files.items():
            text = replaced(text, new)
            stream.append(f"M 100644 inline {name}\ndata {len(text.encode())}\n{text}\n")
    lab.run("git", "fast-import", "--quiet", "--date-format=now", text="".join(stream))
    lab.run("git", "push", "-q", "lab", "main", "refs/exps/*:refs/exps/*")


def renewed(lab: Lab, one: Real) -> dict[str, str]:
    """Return other hashes for all that an experiment made, and write what cache, run-cache and store have of it."""
    new: dict[str, str] = {}
    for old in one.made:
        if old in one.lists:
            new |= {file["md5"]: fresh(lab) for file in one.lists[old]}
            listed = json.dumps([file | {"md5": new[file["md5"]]} for file in one.lists[old]])
            new[old.partition(".")[0]] = fresh(lab, listed, ".dir")
        else:
            new[old] = fresh(lab)
    for text in one.facts:
        facts = json.loads(replaced(text, new))
        facts["id"] = run_id(entry_key(facts["stage"], **facts["ran"]), facts["outs"])
        for place in (lab.store / "runs", lab.clone / "runs"):
            write(place / f"{facts['id']}.json", json.dumps(facts))
    for text in one.runs:
        key, value = secrets.token_hex(32), secrets.token_hex(32)
        for place in (lab.cache, lab.remote):
            write(place / "runs" / key[:2] / key / value, replaced(text, new))
    return new


def fresh(lab: Lab, text: str = "", suffix: str = "") -> str:
    """Write a file with a new hash to cache and remote, and return the hash."""
    md5 = secrets.token_hex(16)
    for place in (lab.cache, lab.remote):
        write(place / "files/md5" / md5[:2] / (md5[2:] + suffix), text or f"{md5}\n")
    return md5


def write(path: Path, text: str) -> None:
    """Write a file that nobody changes, as DVC does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o444)


def replaced(text: str, new: dict[str, str]) -> str:
    """Return a text with other hashes."""
    return HASH.sub(lambda found: new.get(found.group(), found.group()), text)


COMMANDS = (
    "git fetch lab refs/exps/*:refs/exps/*",
    "dvc exp list",
    "dvc exp list --all-commits",
    "dvc exp list --all-commits lab",
    "dvc exp show --json",
    "dvc exp show --json",
    "sightword sweep ../ana.yaml --status",
    "sightword audit models/encoder",
    "sightword results",
    "sightword doctor --quick",
    "sightword doctor",
    "dvc repro dvc.yaml",
    "dvc status --cloud",
    "dvc push --run-cache",
    "dvc gc --workspace --dry --force",
    "dvc gc --all-commits --all-experiments --dry --force",
    "git gc --quiet",
)


def main() -> None:
    """Run the month in a folder; a second run goes on with the folder, without further real experiments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", type=int, default=SWEEP, help="real experiments of each person")
    parser.add_argument("--month", type=int, nargs="+", default=MONTH, help="numbers of experiments to measure at")
    parser.add_argument("--folder", type=Path, help="keep everything there, or go on there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="month-") as temporary:
        lab = Lab((arguments.folder or Path(temporary)).resolve())
        if not lab.clone.exists():
            lab.folder.mkdir(exist_ok=True)
            start(lab)
            lab.sizes(after="first run")
            for number in range(len(PEOPLE)):
                sweep(lab, number, arguments.sweep)
        lab.run("git", "fetch", "-q", "lab", "refs/exps/*:refs/exps/*")
        refs = lab.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split()
        real, have = reals(lab, [ref for ref in refs if "/copy" not in ref]), len(refs)
        for count in arguments.month:
            copies(lab, real, have, count)
            have = max(have, count)
            lab.sizes(experiments=count)
            for command in COMMANDS:
                lab.measure(*command.split(), experiments=count)


if __name__ == "__main__":
    main()
