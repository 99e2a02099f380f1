"""The command that evaluates a sentence encoder on SentEval's tasks."""

from __future__ import annotations

import argparse
import errno
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.cli.command import Commands, add_command

EVALUATE = """\
Evaluate any sentence encoder on SentEval's tasks.

ENCODER is the folder of an encoder (models/encoder), a file of word vectors in
GloVe's format (.txt, .vec, .gz), or module:name: an encoding function or an object
with a method encode, from an installed module or one in this folder; module:name()
calls the name first. The command prints a table; --out writes the scores in the
format of metrics/semantics.json."""

_HEADER = ("task", "subtask", "pairs", "pearson", "95 % interval", "spearman")
_SEEN_HEADER = ("seen", "pearson, unseen")
_AGGREGATES = {"mean": "mean", "weighted_mean": "mean, by pairs", "all": "all pairs together"}


def add(commands: Commands) -> None:
    """Add ``evaluate``."""
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
    evaluate.add_argument(
        "--training-captions", metavar="FILE", help="captions.parquet, or a text file, one caption a line"
    )
    evaluate.add_argument("--no-trained-head", action="store_true", help="score by the cosine alone, which is quicker")
    evaluate.add_argument(
        "--classifier",
        choices=("pytorch", "sklearn"),
        default="pytorch",
        help="which of SentEval's regressions scores the classification tasks (%(default)s)",
    )
    evaluate.add_argument("--kfold", metavar="N", type=int, default=5, help="folds in classification (%(default)s)")
    evaluate.add_argument("--batch-size", metavar="N", type=int, help="sentences encoded together")
    evaluate.add_argument("--lower-case", action="store_true", help="look up word vectors in lower case")
    evaluate.add_argument("--out", metavar="FILE", help="write the scores as JSON")
    evaluate.add_argument("--pairs", metavar="FILE", help="write the score of each pair as Parquet")


def _evaluate(arguments: argparse.Namespace) -> int:
    from pipeline.cli import text_table
    from sightword.encoder.by_name import open_encoder
    from sightword.files import write_json
    from sightword.semantics.evaluation import judge
    from sightword.semantics.pair_table import write_pairs
    from sightword.semantics.settings import TASKS

    if arguments.batch_size is not None and arguments.batch_size < 1:
        arguments.parser.error("--batch-size N must be at least 1")
    if arguments.kfold < 2:
        arguments.parser.error("--kfold N must be at least 2")
    data, tasks = Path(arguments.data), arguments.tasks or list(TASKS)
    out, pairs = (None if name is None else Path(name) for name in (arguments.out, arguments.pairs))
    if out is not None and pairs is not None and out.resolve() == pairs.resolve():
        arguments.parser.error("--out and --pairs are the same file")
    _check(data, tasks, skip=arguments.missing == "skip", outputs=[path for path in (out, pairs) if path is not None])
    captions = arguments.training_captions
    training = None if captions is None else _read_training_captions(Path(captions))
    encode = open_encoder(arguments.encoder, batch_size=arguments.batch_size, lower_case=arguments.lower_case)
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
    print(text_table.to_text(_score_table(found.metrics)))
    for row in found.judged:
        if "undefined" in row.entry:
            print(f"{row.task} {row.subtask} is undefined: {row.entry['undefined']}", file=sys.stderr)
    for task, reason in found.metrics.get("skipped", {}).items():
        print(f"left out: {task} ({reason})", file=sys.stderr)
    return 0


def _read_training_captions(path: Path) -> list[str]:
    """Read the captions of a text file, one a line; or the captions of the split ``train`` in a ``captions.parquet``.

    Raises:
        FileFormatError: the file is missing, cannot be read, or has no caption.
    """
    from sightword.errors import FileFormatError
    from sightword.files import read_table, read_text

    if path.suffix == ".parquet":
        table = read_table(path, ["text", "split"])
        rows = zip(*(table.column(name).to_pylist() for name in ("text", "split")), strict=True)
        captions = [text for text, split in rows if split == "train"]
    else:
        captions = [line for line in read_text(path).splitlines() if line.strip()]
    if not captions:
        raise FileFormatError("has no training caption", where=path)
    return captions


def _check(data: Path, tasks: Sequence[str], *, skip: bool, outputs: Iterable[Path]) -> None:
    """Check before the costly work that the tasks' files exist and that the outputs can be written.

    Raises:
        SemanticsError: there is no such task, or ``skip`` is off and a file is missing.
        OSError: an output cannot be written.
    """
    from sightword.errors import SemanticsError
    from sightword.semantics.datasets import missing_file

    for name in tasks:
        gone = missing_file(name, data)
        if gone is not None and not skip:
            raise SemanticsError(
                f"task {name}: does not exist",
                where=data / gone,
                todo="Get the data set, or name other tasks with --tasks, or add --missing skip.",
            )
    for path in outputs:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(path))
        if path.exists() and not path.is_file():
            raise FileExistsError(errno.EEXIST, "is not a plain file, and is not replaced", str(path))
        folder = next(parent for parent in path.parents if parent.exists())
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is not a folder", str(folder))
        with tempfile.TemporaryFile(dir=folder):
            pass


def _score_table(metrics: Mapping[str, Any]) -> list[list[str]]:
    """Return the scores as lines of cells, the header first: a line for each subtask, aggregate and classification.

    Args:
        metrics: the scores that :func:`sightword.evaluate` returns.
    """
    lines = [[*_HEADER, *_SEEN_HEADER]]
    for task, entries in metrics.items():
        if task == "skipped":
            continue
        if "accuracy" in entries:
            lines.append(_accuracy_line(task, entries))
            continue
        for name, entry in entries.items():
            lines.append(_line(task, _AGGREGATES.get(name, name), entry))
    if not any(line[len(_HEADER)] for line in lines[1:]):  # the training captions are not known
        lines = [line[: len(_HEADER)] for line in lines]
    return lines


def _line(task: str, name: str, entry: Mapping[str, Any]) -> list[str]:
    interval = entry.get("pearson_ci95")
    return [
        task,
        name,
        str(entry.get("pairs", "")),
        _fraction(entry["pearson"]),
        "" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
        _fraction(entry["spearman"]),
        _percent(entry),
        _fraction(entry["unseen"]["pearson"]) if "unseen" in entry else "",
    ]


def _accuracy_line(task: str, entry: Mapping[str, Any]) -> list[str]:
    half = entry.get("accuracy_ci95")
    accuracy = f"accuracy {entry['accuracy']:.2f}" + ("" if half is None else f" ± {half:.2f}")
    return [task, accuracy, str(entry.get("test", "")), "", "", "", _percent(entry), ""]


def _fraction(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _percent(entry: Mapping[str, Any]) -> str:
    seen = entry.get("seen_in_training")
    return "" if seen is None else f"{seen:.1%}"
