"""Damaged files: each reader gives data or one short message, and never waits."""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightword.corpus.reading import read_corpus
from sightword.corpus.settings import CorpusSettings
from sightword.encoder.word_vectors import BagOfWords
from sightword.entailment.data.sources import read_source
from sightword.entailment.settings import Source
from sightword.errors import SightwordError
from sightword.evaluation.semantics.datasets import read_task
from sightword.features.precomputed import convert
from sightword.features.settings import FeaturesSettings
from sightword.grounded.judging.measuring import read_ratings
from sightword.hypernyms.data.pairs import read_pairs
from sightword.hypernyms.data.taxonomy import closure, read_edges, read_wordnet
from sightword.report.inputs import numbers, read_tsv
from sightword.text.reading import Sentences
from sightword.text.settings import TextSettings

QUICK, FULL = 50, 2000
LONGEST, SECONDS = 1000, 5.0

IDS = {"dog": 0, "cat": 1, "animal": 2, "thing": 3}
PAIRS = [
    (f"A {kind} runs {number} .", f"It moves {number} .", number) for number in range(6) for kind in ("dog", "cat")
]
LABELS = ("entailment", "neutral", "contradiction")
KARPATHY = [
    {"filename": f"{n}.jpg", "split": split, "sentences": [{"raw": "A dog .", "tokens": ["a", "dog"], "sentid": n}]}
    for n, split in enumerate(("train", "val", "test", "restval"))
]
COCO = {
    "images": [{"id": n, "file_name": f"{n}.jpg"} for n in range(4)],
    "annotations": [{"id": n, "image_id": n, "caption": "A dog ."} for n in range(4)],
}
GLOSS = "n 0000 | a gloss\n"


def wordnet() -> str:
    """Three synsets at their own offsets, each below the one before."""
    first = f"00000000 03 n 01 thing 0 000 {GLOSS.removeprefix('n 0000 ')}"
    second = f"{len(first):08} 03 n 01 animal 0 001 @ 00000000 {GLOSS}"
    third = f"{len(first + second):08} 03 n 02 dog 0 hound 0 001 @ {len(first):08} {GLOSS}"
    return first + second + third


def corpus(folder: Path, form: str, **more: Any) -> object:
    place, pictures = str(folder), str(folder / "pictures")
    return read_corpus(CorpusSettings(format=form, path=place, pictures=pictures, require_pictures=False, **more))


def source(folder: Path, form: str, path: str = "", part: str = "") -> object:
    return read_source(Source(format=form, path=str(folder / path), part=part))


def curve(path: Path) -> object:
    return numbers(read_tsv(path), "loss", where=path)


def precomputed(folder: Path) -> object:
    np.save(folder / "f.npy", np.ones((2, 3), np.float32))
    values = {"source": "precomputed", "precomputed": "f.npy", "precomputed_ids": "ids.txt"}
    return convert(folder / "out.h5", ["a.jpg", "b.jpg"], FeaturesSettings(inputs=str(folder), **values))


def table(rows: list[tuple[object, ...]], between: str = "\t") -> str:
    return "".join(between.join(map(str, row)) + "\n" for row in rows)


STS = "downstream/STS/STSOwn-en-test/STS"
SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
SICK_ROWS = SICK + table([(n, *pair[:2], 1 + n % 4, LABELS[n % 3].upper()) for n, pair in enumerate(PAIRS)])
SNLI_HEADER = ("gold_label", "parse", "sentence1", "sentence2")
SNLI = table([SNLI_HEADER, *((LABELS[n % 3], "(", *pair[:2]) for n, pair in enumerate(PAIRS))])

READERS: dict[str, tuple[dict[str, str], Callable[[Path], object]]] = {
    "flickr8k": (
        {"Flickr8k.token.txt": "a.jpg#0\tA dog .\nb.jpg#0\tA cat .\nc.jpg#1\tA cow .\n"}
        | {
            f"Flickr_8k.{part}Images.txt": f"{name}.jpg\n"
            for part, name in zip(("train", "dev", "test"), "abc", strict=True)
        },
        lambda folder: corpus(folder, "flickr8k"),
    ),
    "karpathy": ({"dataset_a.json": json.dumps({"images": KARPATHY})}, lambda folder: corpus(folder, "karpathy")),
    "coco": (
        {"captions_train2014.json": json.dumps(COCO)},
        lambda folder: corpus(folder, "coco", coco_dev=[]),
    ),
    "listing": (
        {"a.csv": 'image,caption,split\na.jpg,"A dog, asleep",train\nb.jpg,A cat,test\n'},
        lambda folder: corpus(folder, "table"),
    ),
    "edges": (
        {"edges.csv": 'hyponym,hypernym,relation\ndog,animal,hypernym\n"cat",animal,hypernym\nanimal,thing,hypernym\n'},
        lambda folder: closure(read_edges(folder / "edges.csv", ["hypernym"]), paths=True),
    ),
    "pairs": (
        {"own.tsv": "hyponym\thypernym\tlabel\ndog\tanimal\t1\ncat\tdog\t0\n"},
        lambda folder: read_pairs(folder / "own.tsv", IDS),
    ),
    "li2019": (
        {"li.txt": "IsA\tdog\tanimal\t1\nIsA\tcat\tdog\t0\n"},
        lambda folder: read_pairs(folder / "li.txt", IDS),
    ),
    "ganea2018": (
        {"n.tsv.vocab": "0\tdog\n1\tcat\n2\tanimal\n", "n.tsv.test": "2\t0\n2\t1\n", "n.tsv.test_neg": "0\t1\n"},
        lambda folder: read_pairs(folder / "n.tsv.test", IDS),
    ),
    "wordnet": (
        {
            "data.noun": wordnet(),
            "index.noun": table(
                [
                    (word, "n", 1, 0, 1, 0, offset)
                    for word, offset in (
                        ("thing", "00000000"),
                        ("animal", wordnet().split("\n")[1][:8]),
                        ("dog", wordnet().split("\n")[2][:8]),
                    )
                ],
                " ",
            ),
        },
        lambda folder: read_wordnet(folder, ["hypernym"]),
    ),
    "snli.jsonl": (
        {
            "snli_1.0_test.jsonl": "".join(
                json.dumps({"gold_label": LABELS[n % 3], "sentence1": one, "sentence2": other}) + "\n"
                for n, (one, other, _) in enumerate(PAIRS)
            )
        },
        lambda folder: source(folder, "snli", part="test"),
    ),
    "snli.senteval": (
        {
            "s1.test": table([pair[:1] for pair in PAIRS]),
            "s2.test": table([pair[1:2] for pair in PAIRS]),
            "labels.test": table([(LABELS[n % 3],) for n in range(len(PAIRS))]),
        },
        lambda folder: source(folder, "snli", part="test"),
    ),
    "own pairs": (
        {"a.csv": 'premise,hypothesis,label\n"A dog, here","It ""runs""",neutral\nA,B,entailment\n'},
        lambda folder: source(folder, "table", "a.csv"),
    ),
    "sts": (
        {
            f"{STS}.input.a.txt": table([pair[:2] for pair in PAIRS]),
            f"{STS}.gs.a.txt": table([pair[2:] for pair in PAIRS]),
        },
        lambda folder: read_task("STSOwn", folder),
    ),
    "sick relatedness": (
        {f"downstream/SICK/SICK_{part}.txt": SICK_ROWS for part in ("train", "trial", "test_annotated")},
        lambda folder: read_task("SICKRelatedness", folder),
    ),
    "mrpc": (
        {
            f"downstream/MRPC/msr_paraphrase_{part}.txt": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
            + table([(n % 2, 1, 2, *pair[:2]) for n, pair in enumerate(PAIRS)])
            for part in ("train", "test")
        },
        lambda folder: read_task("MRPC", folder),
    ),
    "ratings": (
        {"r.txt": "Word\tBigram\tConc.M\ndog\t0\t4.9\nidea\t0\t1.6\n"},
        lambda folder: read_ratings(folder / "r.txt"),
    ),
    "vectors": (
        {"v.txt": "3 2\ndog 0.5 1\ncat 1e-3 -2\n. 0 0\n"},
        lambda folder: BagOfWords.load(folder / "v.txt")(["dog cat ."]),
    ),
    "curve": ({"c.tsv": 'step\tloss\n1\t0.5\n2\t"0.25"\n'}, lambda folder: curve(folder / "c.tsv")),
    "picture ids": ({"ids.txt": "a.jpg\nb.jpg\n"}, precomputed),
    "text": (
        {"a.txt": "A dog runs.\nIt stops.\n\nA cat.\n" * 5, "books.csv": "file,first_line\na.txt,1\na.txt,4\n"},
        lambda folder: list(Sentences(TextSettings(path=str(folder)))),
    ),
    "text.gz": (
        {"a.txt.gz": "A dog runs.\nIt stops.\n\nA cat.\n" * 5},
        lambda folder: list(Sentences(TextSettings(path=str(folder)))),
    ),
}

PIECES = (
    *(b"\0", b"\xff", b'"', b"\t", b",", b"\r", b"\n", b"\r\n", b" ", b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf"),
    *(b"nan", b"inf", b"1_0", b"-1", b"9" * 30, b"9" * 5000, b"1e999", b"[" * 2000, b'{"a":' * 2000, b"\\ud800"),
    *(b"x" * 200_000, b"../", b"%s", b"null", b"true", b"@"),
)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Return a file with one to three faults."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        at, length = draw.randrange(len(data) + 1), draw.choice((1, 2, 8, 40))
        rows = data.split(b"\n")
        kind = draw.randrange(8)
        if kind == 0:
            data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at]
        elif kind == 2:
            data = data[:at] + data[at + length :]
        elif kind == 3:
            data = data[: at + length] + data[at:]
        elif kind == 4:
            one, other = draw.randrange(len(rows)), draw.randrange(len(rows))
            rows[one], rows[other] = rows[other], rows[one]
            data = b"\n".join(rows)
        elif kind == 5:
            data = b"\n".join([*rows, draw.choice(rows)])
        else:
            data = data[:at] + draw.choice(PIECES) + data[at:]
    return data


def mutations(name: str, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield a file's name and its damaged bytes; half of the faults of a ``.gz`` are in what it holds."""
    draw, files = random.Random(name), READERS[name][0]
    for _ in range(count):
        file = draw.choice(sorted(files))
        data = files[file].encode()
        if not file.endswith(".gz"):
            yield file, mutated(data, draw)
        elif draw.randrange(2):
            yield file, gzip.compress(mutated(data, draw), 1, mtime=0)
        else:
            yield file, mutated(gzip.compress(data, 1, mtime=0), draw)


@pytest.mark.parametrize("count", [QUICK, pytest.param(FULL, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", READERS)
def test_damaged_file_gives_data_or_one_short_message(name: str, count: int, tmp_path: Path) -> None:
    files, read = READERS[name]
    whole = {
        file: gzip.compress(text.encode()) if file.endswith(".gz") else text.encode() for file, text in files.items()
    }
    for file, data in whole.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(data)
    read(tmp_path)
    for number, (file, data) in enumerate(mutations(name, count)):
        (tmp_path / file).write_bytes(data)
        begun = time.process_time()
        try:
            read(tmp_path)
            said = ""
        except SightwordError as error:
            said = str(error)
        except Exception as error:
            raise AssertionError(f"{name}: fault {number} in {file}: {data[:300]!r}") from error
        assert time.process_time() - begun < SECONDS, (number, file)
        assert len(said) <= LONGEST, (number, file, said)
        (tmp_path / file).write_bytes(whole[file])
