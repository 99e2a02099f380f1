"""The commands that evaluate a sentence encoder on SentEval's tasks, and pack an encoder."""

from __future__ import annotations

import argparse
import errno
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.cli.command import Commands, add_command, columns, refuse

EVALUATE = """\
Evaluate any sentence encoder on SentEval's tasks.

ENCODER is an encoder that comes with Sightword (flickr8k, multi30k), owner/name of the
Hugging Face hub, the folder of an encoder (models/encoder), FOLDER:SPACE (a space of a
grounded encoder, models/grounded/cg-pg-0:grounded), a file of word vectors in
GloVe's format (.txt, .vec, .gz), or module:name: an encoding function or an object
with a method encode, from an installed module or one in this folder; module:name()
calls the name first. The command prints a table; --out writes the scores in the
format of metrics/semantics.json. With OTHER it prints both tables, and tests on the
same pairs whether the encoders differ by more than chance, as `sightword compare` does;
accuracies are not tested.
--training-captions says how many test sentences an encoder has seen in training."""

PACK = """\
Write an encoder as a folder to pass on, with its scores and lineage.

OUT becomes a folder that SentenceEncoder.from_pretrained and all commands accept, and
that huggingface_hub.upload_folder takes as it is: weights as safetensors, the model
card, and LICENSE. For models/encoder of a project the card gets the scores of the test
split, the raw data, parameters and commit that made the encoder. --half writes the
weights in half precision, which halves the folder; --int8 quarters the folder."""

_STORED = {
    "float32": "",
    "float16": "\n## Weights\n\nStored in half precision (float16), loaded as float32.\n",
    "int8": "\n## Weights\n\nStored as 8-bit integers with a scale for each row, loaded as float32.\n",
}
"""The section of the model card on the numbers of the weights."""
_OF_PICTURE = re.compile(r'"?[^\s,|]+\.(?:jpe?g|png|gif|bmp|webp|tiff?)"?(?:#\d+)?\s*[,|\t]', re.IGNORECASE)
"""The beginning of a line with a picture's name and a caption."""
_HEADER = ("task", "subtask", "pairs", "pearson", "95 % interval", "spearman")
_SEEN_HEADER = ("seen", "pearson, unseen", "tf-idf")


def add(commands: Commands) -> None:
    """Add ``evaluate`` and ``pack``."""
    evaluate = add_command(commands, "evaluate", EVALUATE, _evaluate)
    evaluate.add_argument(
        "encoder", metavar="ENCODER", help="flickr8k, multi30k, a folder, a file of word vectors, or module:name"
    )
    evaluate.add_argument("other", metavar="OTHER", nargs="?", help="a second encoder, to test the difference")
    evaluate.add_argument("--data", metavar="FOLDER", required=True, help="the folder that holds SentEval's downstream")
    tasks = "which tasks (default: STS12 to STS16, STSBenchmark, SICKRelatedness)"
    evaluate.add_argument("--tasks", metavar="NAME", nargs="+", help=tasks)
    evaluate.add_argument("--missing", choices=("error", "skip"), default="error", help="tasks without files")
    captions = "captions.parquet, or a text file, one caption a line"
    evaluate.add_argument("--training-captions", metavar="FILE", help=captions)
    evaluate.add_argument("--no-trained-head", action="store_true", help="score by the cosine alone, which is quicker")
    evaluate.add_argument("--batch-size", metavar="N", type=int, help="sentences encoded together")
    evaluate.add_argument("--lower-case", action="store_true", help="look up word vectors in lower case")
    evaluate.add_argument("--out", metavar="FILE", type=Path, help="write the scores as JSON")
    evaluate.add_argument("--pairs", metavar="FILE", type=Path, help="write the score of each pair as Parquet")
    folder = "flickr8k, multi30k, owner/name of the Hugging Face hub, or a folder, such as models/encoder"
    pack = add_command(commands, "pack", PACK, _pack)
    pack.add_argument("encoder", metavar="ENCODER", help=folder)
    pack.add_argument("out", metavar="OUT", type=Path, help="a new folder")
    stored = pack.add_mutually_exclusive_group()
    for flag, kind, words in (
        ("--half", "float16", "weights in half precision (float16)"),
        ("--int8", "int8", "weights as 8-bit integers, a scale for each row"),
    ):
        stored.add_argument(flag, dest="stored", action="store_const", const=kind, default="float32", help=words)


def _evaluate(arguments: argparse.Namespace) -> int:
    from sightword.encoder.by_name import WORD_VECTORS, open_encoder
    from sightword.evaluation.semantics.evaluation import evaluate as judge
    from sightword.evaluation.semantics.relatedness import TfIdf
    from sightword.evaluation.semantics.results import PairTable, write_pairs
    from sightword.evaluation.semantics.settings import TASKS
    from sightword.io.files import write_json

    data, tasks = Path(arguments.data), arguments.tasks or list(TASKS)
    out, pairs = arguments.out, arguments.pairs
    same = out is not None and pairs is not None and out.resolve() == pairs.resolve()
    refuse(
        arguments,
        (arguments.batch_size is not None and arguments.batch_size < 1, "--batch-size N must be at least 1"),
        (same, "--out and --pairs are the same file"),
        (bool(arguments.other and (out or pairs)), "--out and --pairs go with one ENCODER"),
    )
    _check(data, tasks, skip=arguments.missing == "skip", outputs=[path for path in (out, pairs) if path])
    captions = arguments.training_captions
    training = None if captions is None else _read_training_captions(Path(captions))
    names = [arguments.encoder, *filter(None, [arguments.other])]
    lower = ([name for name in names if name.endswith(WORD_VECTORS)] or names) if arguments.lower_case else []
    batched = [name for name in names if not name.endswith(WORD_VECTORS)] or names
    encoders = [
        open_encoder(name, batch_size=arguments.batch_size if name in batched else None, lower_case=name in lower)
        for name in names
    ]
    options = {"missing": arguments.missing, "controls": {"tfidf": TfIdf(training, progress=True)} if training else {}}
    head = not arguments.no_trained_head
    both = [judge(encode, tasks, data, training, trained_head=head, progress=True, **options) for encode in encoders]
    if out is not None:
        write_json(out, both[0].metrics)
    if pairs is not None:
        write_pairs(pairs, both[0].judged)
    for label, name, judged in zip("AB", names, both, strict=False):
        heading = [*[""] * (label == "B"), f"{label}: {name}\n"] if arguments.other else []
        print(*heading, columns(_score_table(judged.metrics)), sep="\n")
        for row in judged.judged:
            if "undefined" in row.entry:
                whose = f"{label}: " if arguments.other else ""
                print(f"{whose}{row.task} {row.subtask} is undefined: {row.entry['undefined']}", file=sys.stderr)
    for task, reason in both[0].metrics.get("skipped", {}).items():
        print(f"left out: {task} ({reason})", file=sys.stderr)
    if arguments.other and both[0].judged:
        from pipeline.comparison import table
        from pipeline.comparison.correlations import compare

        compared = compare(*(PairTable.of(judged.judged) for judged in both))
        print("", columns(table.lines(compared)), *table.verdict(compared), sep="\n")
    elif arguments.other:
        print("", "No test: accuracies have no pairs.", sep="\n")
    return 0


def _read_training_captions(path: Path) -> list[str]:
    """Read captions from a text file, one a line, or those of the split ``train`` from a ``captions.parquet``."""
    from sightword.errors import FileFormatError
    from sightword.io.files import read_table
    from sightword.io.opening import lines

    expected = "captions.parquet, or a text file, one caption a line"
    if path.suffix == ".parquet":
        rows = read_table(path, ["text", "split"], foreign=True).to_pylist()
        captions = [row["text"] for row in rows if row["split"] == "train"]
    else:
        captions = [line for _, line in lines(path) if line.strip()]
        if (
            path.suffix in (".csv", ".tsv", ".json", ".jsonl")
            or any("\t" in line for line in captions)
            or (2 * sum(_OF_PICTURE.match(line) is not None for line in captions) > len(captions))
        ):
            raise FileFormatError("has more on a line than a caption", where=path, expected=expected)
    if not captions:
        raise FileFormatError("has no training caption", where=path, expected=expected)
    return captions


def _check(data: Path, tasks: Sequence[str], *, skip: bool, outputs: Iterable[Path]) -> None:
    """Check before the costly work that the tasks' files exist and that the outputs can be written."""
    from sightword.errors import SemanticsError
    from sightword.evaluation.semantics.datasets import missing_file

    gone = {name: file for name in tasks if (file := missing_file(name, data)) is not None}
    if gone and (not skip or len(gone) == len(tasks)):
        name, file = next(iter(gone.items()))
        todo = "Fetch it (`sightword fetch senteval`), or name other tasks with --tasks" + (
            ", or add --missing skip." if not skip else "."
        )
        raise SemanticsError(f"task {name}: does not exist", where=data / file, todo=todo)
    for path in outputs:
        folder = next(parent for parent in path.parents if parent.exists())
        if path.exists() and not path.is_file():
            raise FileExistsError(errno.EEXIST, "is not a plain file, and is not replaced", str(path))
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is not a folder", str(folder))
        with tempfile.TemporaryFile(dir=folder):
            pass


def _score_table(metrics: Mapping[str, Any]) -> list[list[str]]:
    """Return the scores as lines of cells, the header first: a line for each subtask, aggregate and classification."""
    from sightword.evaluation.semantics.datasets import AGGREGATES
    from sightword.evaluation.semantics.results import mean_of_seven
    from sightword.statistics.inference import with_interval

    lines = []
    floor = metrics.get("controls", {}).get("tfidf", {})
    for task, entries in metrics.items():
        if task in ("skipped", "controls"):
            continue
        if "accuracy" in entries:
            accuracy = f"accuracy {with_interval(entries['accuracy'], entries.get('accuracy_ci95'), 2)}"
            lines.append([task, accuracy, str(entries.get("test", "")), "", "", "", _percent(entries), "", ""])
            continue
        for name, entry in entries.items():
            interval = entry.get("pearson_ci95")
            lines.append([
                *(task, AGGREGATES.get(name, name), str(entry.get("pairs", "")), _fraction(entry["pearson"])),
                "" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
                *(_fraction(entry["spearman"]), _percent(entry)),
                _fraction(entry["unseen"]["pearson"]) if "unseen" in entry else "",
                _fraction(floor[task][name]) if name in floor.get(task, {}) else "",
            ])  # fmt: skip
    if (seven := mean_of_seven(metrics)) is not None:
        lines.append(["seven tasks", "mean of pooled", "", "", "", _fraction(seven), "", "", ""])
    known = any(line[len(_HEADER)] for line in lines)  # the training captions
    width = len(_HEADER) + (len(_SEEN_HEADER) if known else 0)
    return [line[:width] for line in ([*_HEADER, *_SEEN_HEADER], *lines)]


def _fraction(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _percent(entry: Mapping[str, Any]) -> str:
    seen = entry.get("seen_in_training")
    return "" if seen is None else f"{seen:.1%}"


def _pack(arguments: argparse.Namespace) -> int:
    from pipeline import systems
    from pipeline.downloads.sources import data_sets
    from pipeline.lineage.card import corpus, sections
    from pipeline.pipelines import Pipeline, find_project, shipped
    from sightword.encoder.pretrained import PACKAGED, find_encoder
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.errors import EncoderError, LineageError, SetupError
    from sightword.io.files import atomic_folder, read_text, write_text
    from sightword.messages import size

    cards: Any = systems.load(Pipeline(shipped()), "packed_card")
    folder, out = find_encoder(arguments.encoder), arguments.out
    if out.exists():
        raise EncoderError("exists", where=out, todo="Name a new folder.")
    encoder, card, licence, lineage = SentenceEncoder.load(folder), folder / "README.md", folder / "LICENSE", ""
    text = read_text(card) if card.is_file() else ""
    for section in filter(None, _STORED.values()):  # of an encoder that was packed before
        text = text.replace(section, "")
    try:
        project = find_project(folder.resolve())
        path = folder.resolve().relative_to(project).as_posix()
        scores, retrieval, lineage = sections(project, path)
        known = data_sets().get(corpus(project, path))
        named = cards.Corpus(known.name, known.what.partition(",")[0], known.terms) if known else None
        if text.startswith("---\n"):
            text = cards.with_scores(
                cards.of_corpus(text, out.name, named) if named else text, scores, retrieval, named
            )
        else:
            text += scores
    except SetupError:  # the encoder is not of a project
        pass
    except LineageError as error:
        print(f"note: without scores and lineage: {error}", file=sys.stderr)
    text, terms = cards.with_licence(text, encoder)
    text = cards.renamed(text, out.name, encoder, packaged=out.resolve().parent == PACKAGED)
    with atomic_folder(out) as place:
        encoder.save(place, stored=arguments.stored)
        write_text(place / card.name, text + _STORED[arguments.stored] + lineage)
        write_text(place / licence.name, read_text(licence) if licence.is_file() else terms)
    print(f"{out}: {size(sum(path.stat().st_size for path in out.rglob('*') if path.is_file()))}")
    return 0
