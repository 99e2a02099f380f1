"""The last lines of `make repro`: what the run made, where to look, and how to keep the run in git."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pipeline.cli.command import columns
from pipeline.lineage.evidence import RUNS
from pipeline.lineage.facts import FIRST, listed
from pipeline.lineage.repository import git
from pipeline.pipelines import Pipeline
from sightword.errors import LineageError, SightwordError
from sightword.messages import and_more


def main() -> int:
    """Print the lines on the last run of a pipeline; the argument is its folder (default: the project's own)."""
    try:
        print("\n".join(["", *closing(Pipeline(Path.cwd(), *sys.argv[1:2]))]))
    except SightwordError as error:
        print(f"sightword: {error}", file=sys.stderr)
        return 1
    return 0


def closing(pipeline: Pipeline) -> list[str]:
    """Return the lines on a pipeline's last run.

    Raises:
        FileFormatError: the ``dvc.yaml`` cannot be read.
    """
    made = [(f"  {path}", about) for path, about in _made(pipeline) if (pipeline.project / path).exists()]
    return [columns([("The run made:", ""), *made]), *_uncommitted(pipeline)]


def _made(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Yield what a user looks for first, each path with a description."""
    outs, numbers = (
        [path for one in pipeline.stages.values() for path, _ in listed(one, kinds)]
        for kinds in (("outs",), ("metrics", "plots"))
    )
    for path in outs:
        if path.startswith("report/") and path != "report/plots":
            yield path if path.endswith(".html") else f"{path}/index.html", "the report: open it in a browser"
    if not pipeline.folder:
        yield "models/encoder", f"the trained encoder{_trained_on(pipeline.project)}"
    for path in numbers:
        if path.endswith("/summary.json"):
            yield path, f"the scores: dvc metrics show {path}"


def _trained_on(project: Path) -> str:
    try:
        found = json.loads((project / "metrics/train.json").read_text())
        return f", from {found['pictures']} pictures with {found['captions']} captions"
    except (OSError, ValueError, KeyError):
        return ""


def _uncommitted(pipeline: Pipeline) -> list[str]:
    """Return the lines on records of the run that git does not have; none where git has all, or cannot be asked."""
    paths = [pipeline.lock, "metrics", f"{RUNS}/{pipeline.folder or FIRST}"]
    paths += [pipeline.ignore] if pipeline.folder else []  # the first run removes the file
    try:
        listed = git(pipeline.project, "status", "--porcelain", "--no-renames", "--", *paths)
    except LineageError:
        return []
    state = {line[3:]: line[:2] for line in listed.splitlines()}
    if not state:
        return []
    new = " ".join(path for path, letters in state.items() if letters == "??")
    about = [
        f"Not committed: {and_more(state)} (the record of this run). The last digits of a run differ from",
        "machine to machine, so the first run in a clone changes these files. To keep the run:",
    ]
    if [*state] == [pipeline.ledger]:
        about = [
            "All digits are those of the last commit.",
            f"Not committed: {pipeline.ledger} (how often your runs scored the test splits). To keep it:",
        ]
    return [
        "",
        *about,
        f'  {f"git add {new} && " if new else ""}git commit -am "My first run"',
    ]


if __name__ == "__main__":
    sys.exit(main())
