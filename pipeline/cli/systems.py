"""The commands that judge encoders and compare them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli.command import Commands, add_command, add_layout, laid_out

if TYPE_CHECKING:
    from pipeline.comparison.contrast import Contrast

PAGE = Path("report/compare.html")
"""Where the page of two revisions goes in a project."""

COMPARE = """\
Compare two runs: recalls and semantic scores, with tests and intervals.

A and B are commits, branches or experiments of this project, or `workspace`, what
lies here: their results come from git and DVC's cache, and report/compare.html
shows both side by side. Or they are other projects, or tables of pairs that the
stage semantics wrote (pairs.parquet); what exists is taken for a path. With
--published, A is set beside a system of Merkx & Frank 2019, by their rule, as only
its correlations are known.

  sightword compare main my-experiment
  sightword compare HEAD workspace --html change.html
  sightword compare . ../other-project
  sightword compare . --published char-gru"""

EVALUATE = """\
Judge any sentence encoder on SentEval's tasks.

ENCODER is the folder of an encoder (models/encoder), a file of word vectors in
GloVe's format (.txt, .vec, .gz), or module:name: an encoding function or an object
with a method encode, from a module in this folder or installed; module:name() calls
it first. It prints a table; --out writes what metrics/semantics.json holds."""


MOST_SAMPLES = 1_000_000


def add(commands: Commands) -> None:
    """Add ``compare`` and ``evaluate``."""
    compare = add_command(commands, "compare", COMPARE, _compare)
    compare.add_argument("a", metavar="A", help="a commit, branch or experiment, a project, or a table of pairs")
    compare.add_argument("b", metavar="B", nargs="?", help="the other one, judged on the same queries and pairs")
    compare.add_argument("--published", metavar="NAME", help="instead of B: bow, infersent, char-gru or char-gru-coco")
    compare.add_argument("--unseen", action="store_true", help="only pairs of which neither sentence was trained on")
    compare.add_argument("--samples", metavar="N", type=int, help="resamples, and random swaps (default: 10000)")
    compare.add_argument("--seed", metavar="N", type=int, help="of their draws (default: 0)")
    compare.add_argument(
        "--html", metavar="FILE", type=Path, help=f"write a page of both (default for revisions: {PAGE})"
    )
    add_layout(compare, csv="CSV with all digits, and nothing else: of correlations, else of recalls")

    evaluate = add_command(commands, "evaluate", EVALUATE, _evaluate)
    evaluate.add_argument("encoder", metavar="ENCODER", help="a folder, a file of word vectors, or module:name")
    evaluate.add_argument("--data", metavar="FOLDER", required=True, help="the folder that holds SentEval's downstream")
    evaluate.add_argument(
        "--tasks",
        metavar="NAME",
        nargs="+",
        help="which tasks (default: STS12 to STS16, STSBenchmark, SICKRelatedness)",
    )
    evaluate.add_argument("--missing", choices=("error", "skip"), default="error", help="tasks without files")
    evaluate.add_argument("--training-captions", metavar="FILE", help="captions.parquet, or a text with one a line")
    evaluate.add_argument("--no-trained-head", action="store_true", help="judge by the cosine alone, which is quicker")
    evaluate.add_argument(
        "--classifier",
        choices=("pytorch", "sklearn"),
        default="pytorch",
        help="which of SentEval's regressions judges tasks with classes (%(default)s)",
    )
    evaluate.add_argument("--kfold", metavar="N", type=int, default=5, help="folds of those tasks (%(default)s)")
    evaluate.add_argument("--batch-size", metavar="N", type=int, help="sentences encoded together")
    evaluate.add_argument("--lower-case", action="store_true", help="look up word vectors in lower case")
    evaluate.add_argument("--out", metavar="FILE", help="write the scores as JSON")
    evaluate.add_argument("--pairs", metavar="FILE", help="write the score of each pair as Parquet")


def _compare(arguments: argparse.Namespace) -> int:
    _check(arguments)
    if arguments.published is not None:
        return _beside_published(arguments)
    from pipeline.comparison import contrast, runs, systems
    from pipeline.lineage.facts import RUNS
    from sightword import machine

    samples = systems.SAMPLES if arguments.samples is None else arguments.samples
    seed = systems.SEED if arguments.seed is None else arguments.seed
    project = _project()
    facts = [] if project is None else [project / RUNS, machine.current().store / RUNS]
    with runs.opened(arguments.a, arguments.b, project) as (a, b):
        found = contrast.contrast(
            a, b, project=project, facts=facts, unseen=arguments.unseen, samples=samples, seed=seed
        )
        _print_contrast(arguments, found)
        page = arguments.html
        if page is None and project is not None and not arguments.csv and runs.is_revision(arguments.a, arguments.b):
            page = project / PAGE
        if page is not None:
            from pipeline.comparison.page import write

            size = write(found, page)
            print(f"{page}: both as one page, {size // 1000} kB", file=sys.stderr if arguments.csv else sys.stdout)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Options that do not go together."""
    if (arguments.b is None) == (arguments.published is None):
        arguments.parser.error("compare A with what? Give either B or --published NAME")
    of_pairs = (arguments.unseen, arguments.samples is not None, arguments.seed is not None)
    if arguments.published is not None and any(of_pairs):
        arguments.parser.error("--unseen, --samples and --seed need B: the published pairs are not known")
    if arguments.published is not None and arguments.html is not None:
        arguments.parser.error("--html needs B: `dvc repro report` sets a run beside the published systems")
    if arguments.samples is not None and not 1 <= arguments.samples <= MOST_SAMPLES:
        arguments.parser.error(f"--samples N must be from 1 to {MOST_SAMPLES}")
    if arguments.seed is not None and arguments.seed < 0:
        arguments.parser.error("--seed N cannot be below 0")


def _project() -> Path | None:
    """The project that the user is in; None where there is none."""
    from pipeline.pipelines import find_project
    from sightword.errors import SetupError

    try:
        return find_project(Path.cwd())
    except SetupError:
        return None


def _print_contrast(arguments: argparse.Namespace, found: Contrast) -> None:
    """Tables and verdicts; as CSV only correlations where there are some, else recalls."""
    from pipeline.comparison import table

    parts = []
    if found.recalls and not (arguments.csv and found.semantics):
        parts.append(
            (table.recall_lines(found.recalls, exact=arguments.csv), table.recall_verdict(found.recalls, found.samples))
        )
    if found.semantics is not None:
        below = table.verdict(found.semantics)
        if arguments.unseen:
            below.insert(0, "Only pairs of which neither sentence is a training caption of A or B.")
        parts.append((table.lines(found.semantics, exact=arguments.csv), below))
    head = [
        f"{side.label}: " + (f"{side.name} ({side.about})" if side.revision else side.about)
        for side in (found.a, found.b)
    ]
    drawn = ["the pictures"] * bool(found.recalls) + ["the pairs"] * (found.semantics is not None)
    tail = [f"Bootstrap: {found.samples} resamples of {' and of '.join(drawn)}, seed {found.seed}."] if drawn else []
    if found.recalls:
        tail[0] += " As many swaps of the pictures' answers."
    _print(arguments, head, parts, tail)
    for note in found.notes:
        print(note, file=sys.stderr)
    if found.semantics is not None:
        for name in found.semantics.unknown:
            print(f"{name} does not tell its training captions: all its pairs count as unseen", file=sys.stderr)
        _tell_left_out(found.semantics.left_out)


def _beside_published(arguments: argparse.Namespace) -> int:
    from pipeline.comparison import systems, table
    from sightword.semantics import published
    from sightword.semantics.pair_table import read_pairs

    path = systems.pairs_file(arguments.a)
    beside = published.beside_published(read_pairs(path), arguments.published)
    head = [f"A: {path}", f"B: {published.SYSTEMS[arguments.published]}, {published.SOURCE}"]
    lines = table.published_lines(beside, exact=arguments.csv)
    _print(arguments, head, [(lines, [table.published_verdict(beside, arguments.published)])], [])
    _tell_left_out(beside.left_out)
    return 0


def _print(
    arguments: argparse.Namespace, head: list[str], parts: list[tuple[list[list[str]], list[str]]], tail: list[str]
) -> None:
    """Tables, each with its sentences below; as CSV nothing else."""
    tables = [laid_out(arguments, lines) for lines, _ in parts]
    if arguments.csv:
        print(*tables, sep="\n\n")
        return
    gap = "\n\n" if arguments.md else "\n"
    texts = [gap.join(head)]
    for text, (_, below) in zip(tables, parts, strict=True):
        texts += [text, gap.join(below)]
    print(*texts, *tail, sep="\n\n")


def _tell_left_out(names: list[str]) -> None:
    if names:
        print(f"left out: {', '.join(names)}", file=sys.stderr)


def _evaluate(arguments: argparse.Namespace) -> int:
    from pipeline.cli import text_table
    from sightword.encoder import by_name
    from sightword.files import write_json
    from sightword.semantics.settings import TASKS

    if arguments.batch_size is not None and arguments.batch_size < 1:
        arguments.parser.error("--batch-size N must be at least 1")
    if arguments.kfold < 2:
        arguments.parser.error("--kfold N must be at least 2")
    data, tasks = Path(arguments.data), arguments.tasks or list(TASKS)
    out, pairs = (None if name is None else Path(name) for name in (arguments.out, arguments.pairs))
    if out is not None and pairs is not None and out.resolve() == pairs.resolve():
        arguments.parser.error("--out and --pairs are the same file")
    skip = arguments.missing == "skip"
    by_name.check(data, tasks, skip=skip, outputs=[path for path in (out, pairs) if path is not None])
    captions = arguments.training_captions
    training = None if captions is None else by_name.read_training_captions(Path(captions))
    encode = by_name.open_encoder(arguments.encoder, batch_size=arguments.batch_size, lower_case=arguments.lower_case)

    from sightword.semantics.evaluation import judge
    from sightword.semantics.pair_table import write_pairs

    found = judge(
        encode,
        tasks,
        data,
        training,
        trained_head=not arguments.no_trained_head,
        classifier=arguments.classifier,
        kfold=arguments.kfold,
        missing=arguments.missing,
        progress=True,
    )
    if out is not None:
        write_json(out, found.metrics)
    if pairs is not None:
        write_pairs(pairs, found.judged)
    print(text_table.to_text(by_name.score_table(found.metrics)))
    for row in found.judged:
        if "undefined" in row.entry:
            print(f"{row.task} {row.subtask} is undefined: {row.entry['undefined']}", file=sys.stderr)
    for task, reason in found.metrics.get("skipped", {}).items():
        print(f"left out: {task} ({reason})", file=sys.stderr)
    return 0
