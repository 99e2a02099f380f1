"""What ``sightword evaluate`` does around the judging: an encoder by its name, checks before, a table afterwards."""

from __future__ import annotations

import errno
import importlib
import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightword.errors import EncoderError, FileFormatError, SemanticsError
from sightword.files import read_table, read_text

WORD_VECTORS = (".txt", ".vec", ".gz")
"""The endings of word-vector files."""

HEADER = ("task", "subtask", "pairs", "pearson", "95 % interval", "spearman")
SEEN_HEADER = ("seen", "pearson, unseen")
AGGREGATES = {"mean": "mean", "weighted_mean": "mean, by pairs", "all": "all pairs together"}


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder, and what it wants to see before."""

    encode: Callable[..., Any]
    """From a list of N sentences to their vectors (N, D)."""
    prepare: Callable[[list[str]], object] | None = None
    """Shown all sentences before the first is encoded."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What ``encode`` is given beside the sentences."""

    def __call__(self, sentences: list[str]) -> Any:
        """The vectors of these sentences."""
        return self.encode(sentences, **self.options)


def open_encoder(name: str, *, batch_size: int | None = None, lower_case: bool = False) -> Callable[[list[str]], Any]:
    """The encoder of a name.

    Args:
        name: the folder of an encoder (such as ``models/encoder``); a file of word vectors that ends in ``.txt``,
            ``.vec`` or ``.gz``; or ``module:name``, an encoding function or an object with a method
            ``encode`` of that module, which may lie in the working folder, and with ``()`` behind it what calling
            it gives.
        batch_size: handed to what takes one; None leaves it its own.
        lower_case: of word vectors: look words up in lower case.

    Raises:
        EncoderError: there is no such encoder, it cannot be loaded, or it cannot encode.
        SemanticsError: a file that holds no word vectors.
    """
    path = Path(name)
    if lower_case and not name.endswith(WORD_VECTORS):
        raise EncoderError("does not look words up, which --lower-case is for", where=name)
    if path.is_dir():
        return _ours(path, batch_size)
    if name.endswith(WORD_VECTORS):
        from sightword.semantics.word_vectors import BagOfWords

        return BagOfWords.load(path, lower_case=lower_case)
    if found := re.fullmatch(r"(\w[\w.]*):([\w.]+)(\(\))?", name):
        return _theirs(found[1], found[2], bool(found[3]), batch_size)
    raise EncoderError(
        "no such encoder",
        where=name,
        expected="the folder of an encoder, a file of word vectors (.txt, .vec or .gz), or module:name",
    )


def read_training_captions(path: Path) -> list[str]:
    """The captions of a text file, one a line; or those of the split ``train`` in a ``captions.parquet``.

    Raises:
        FileFormatError: it is missing, cannot be read, or has none.
    """
    if path.suffix == ".parquet":
        table = read_table(path, ["text", "split"])
        rows = zip(*(table.column(name).to_pylist() for name in ("text", "split")), strict=True)
        captions = [text for text, split in rows if split == "train"]
    else:
        captions = [line for line in read_text(path).splitlines() if line.strip()]
    if not captions:
        raise FileFormatError("has no training caption", where=path)
    return captions


def check(data: Path, tasks: Sequence[str], *, skip: bool, outputs: Iterable[Path]) -> None:
    """What can go wrong, before anything costly: a task's missing files, a place that cannot be written to.

    Raises:
        SemanticsError: there is no such task, or ``skip`` is off and a file is not there.
        OSError: a file cannot be written.
    """
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
            raise FileExistsError(errno.EEXIST, "is no plain file, which could be replaced", str(path))
        folder = next(parent for parent in path.parents if parent.exists())
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is no folder", str(folder))
        with tempfile.TemporaryFile(dir=folder):
            pass


def score_table(metrics: Mapping[str, Any]) -> list[list[str]]:
    """The scores as lines of cells for a person, the header first: a line a subtask, an aggregate, a classification.

    Args:
        metrics: what :func:`sightword.semantics.evaluate` returns.
    """
    lines = [[*HEADER, *SEEN_HEADER]]
    for task, entries in metrics.items():
        if task == "skipped":
            continue
        if "accuracy" in entries:
            lines.append(_accuracy_line(task, entries))
            continue
        for name, entry in entries.items():
            lines.append(_line(task, AGGREGATES.get(name, name), entry))
    if not any(line[len(HEADER)] for line in lines[1:]):  # the training captions are not known
        lines = [line[: len(HEADER)] for line in lines]
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


def _ours(folder: Path, batch_size: int | None) -> Callable[[list[str]], Any]:
    from sightword import devices, machine
    from sightword.encoder.sentence_encoder import LONGEST, SentenceEncoder

    encoder = SentenceEncoder.load(folder, device=devices.use(machine.current()))
    return NamedEncoder(encoder.encode, options={"max_length": LONGEST, **_options(encoder.encode, batch_size)})


def _theirs(module: str, name: str, called: bool, batch_size: int | None) -> Callable[[list[str]], Any]:
    where = f"{module}:{name}" + ("()" if called else "")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise EncoderError(
            f"there is no module {error.name}", where=where, todo="Run it from the folder that holds it, or install it."
        ) from None
    except (ImportError, SyntaxError) as error:  # what else its code raises is its own, and shown as it is
        raise EncoderError(f"cannot be imported ({type(error).__name__}: {error})", where=where) from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise EncoderError(f"the module {module} has no {name}", where=where)
        found = getattr(found, part)
    if called:
        if not callable(found):
            raise EncoderError(f"is {type(found).__name__}, which cannot be called", where=where, todo="Leave () away.")
        if needed := _needed(found):
            raise EncoderError(f"cannot be called without {', '.join(needed)}", where=where)
        found = found()
    if isinstance(found, type):
        raise EncoderError("is a class", where=where, todo="Put () behind it to make one.")
    encode = getattr(found, "encode", found)
    if not callable(encode):
        raise EncoderError(
            f"is {type(found).__name__}", where=where, expected="a function, or an object with a method encode"
        )
    prepare = getattr(found, "prepare", None)
    return NamedEncoder(encode, prepare if callable(prepare) else None, _options(encode, batch_size))


def _needed(function: Callable[..., Any]) -> list[str]:
    """The arguments that a call must give."""
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, one in _parameters(function).items() if one.default is one.empty and one.kind not in free]


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """None for what is written in C and says nothing of what it takes."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _options(encode: Callable[..., Any], batch_size: int | None) -> dict[str, Any]:
    """The batch size, where one is asked for and the encoder takes it."""
    if batch_size is None:
        return {}
    names = _parameters(encode)
    if "batch_size" not in names and not any(one.kind is one.VAR_KEYWORD for one in names.values()):
        raise EncoderError("the encoder takes no batch_size", todo="Leave --batch-size away.")
    return {"batch_size": batch_size}
