"""Damaged files: each reader of foreign bytes gives a value or one short message, and ends in time and memory.

A reader runs in a process of its own, so that a crash is a failure too. The faults of a reader are numbered; a failure
names the number, with which `outcome` repeats the fault.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gzip
import hashlib
import io
import itertools
import json
import logging
import mmap
import os
import random
import re
import resource
import shutil
import signal
import sys
import tarfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import kept_features
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from file_faults import faulty
from PIL import Image
from saved_things import THINGS, plain
from sums import renew

from pipeline.downloads import fetching
from pipeline.experiments import grid
from pipeline.lineage import code_lists
from pipeline.lineage.audit import find_entry
from pipeline.lineage.evidence import KnownFacts, run_id, scorings_of
from pipeline.lineage.lock import entry_key, joined, tracked_hashes
from pipeline.params import overlay, params_file, recipes
from pipeline.pipelines import Pipeline
from sightword.corpus.looking import look
from sightword.corpus.reading import read_corpus
from sightword.corpus.sample.scene import load_world
from sightword.corpus.settings import CorpusSettings
from sightword.encoder.word_vectors import BagOfWords
from sightword.entailment.data.sources import read_source
from sightword.entailment.settings import Source
from sightword.errors import CorpusError, SightwordError
from sightword.evaluation import ledger
from sightword.evaluation.semantics.datasets import read_task
from sightword.features import weights
from sightword.features.precomputed import convert
from sightword.features.settings import FeaturesSettings
from sightword.grounded.judging.measuring import read_ratings
from sightword.hypernyms.data.pairs import read_pairs
from sightword.hypernyms.data.taxonomy import closure, read_edges, read_scenes, read_wordnet
from sightword.images.decode import RejectError, decode
from sightword.io import hdf5
from sightword.io.files import read_json, read_text
from sightword.io.transfer import unpack
from sightword.places.place import read as read_place
from sightword.places.place import read_listing
from sightword.report.inputs import numbers, read_tsv
from sightword.storage.maintenance import survey
from sightword.storage.store import SEGMENT_NAME, Store, name_of
from sightword.text.reading import Sentences
from sightword.text.settings import TextSettings
from study import tables
from study.rows import read_topic
from study.runs import read_scores

REPOSITORY = Path(__file__).parents[2]
QUICK, FULL, SPAN = 40, 2000, 1.2
"""Faults of a reader, and seconds of the processor after which a slow reader is left."""
LONGEST = 1200
"""The most characters of a line of a message."""
SECONDS, MEMORY = 5, 1 << 30
"""Time of the processor for a fault, and bytes that a reader may take."""

IDS = {"dog": 0, "cat": 1, "animal": 2, "thing": 3}
LABELS = ("entailment", "neutral", "contradiction")
PARTS = ("train", "dev", "test")
KARPATHY = [
    {"filename": f"{n}.jpg", "split": split, "sentences": [{"raw": "A dog .", "tokens": ["a", "dog"], "sentid": n}]}
    for n, split in enumerate(("train", "val", "test", "restval"))
]
COCO = {
    "images": [{"id": n, "file_name": f"{n}.jpg"} for n in range(4)],
    "annotations": [{"id": n, "image_id": n, "caption": "A dog ."} for n in range(4)],
}
FLICKR = {f"Flickr_8k.{part}Images.txt": f"{part}.jpg\n" for part in PARTS}
FLICKR |= {"Flickr8k.token.txt": "".join(f"{part}.jpg#0\tA dog .\n" for part in PARTS)}
GLOSS = "n 0000 | a gloss\n"
EDGES = 'hyponym,hypernym,relation\ndog,animal,hypernym\n"cat",animal,hypernym\nanimal,thing,hypernym\n'
TEXT = "A dog runs.\nIt stops.\n\nA cat.\n" * 5
GRID = "blocks:\n- train.margin: [0.1, 0.2]\n  train.batch: [16]\nset: {train.epochs: 2}\nseeds: [0, 1]\n"
TABLES = """columns: {r10: {title: R@10, cell: "{a.r10}"}}
tables:
  one: {columns: [r10], rows: [{label: base, result: objectives/base}]}
"""
METRICS = '{"test": {"r1": 0.5, "r1_ci95": [0.4, 0.6], "n": 9}, "a.b": [1, null, {"y": "z"}]}'
TRACKED = "outs:\n- md5: 0123456789abcdef0123456789abcdef.dir\n  size: 7\n  hash: md5\n  path: a\n"
LOCK = (REPOSITORY / "dvc.lock").read_text()
ENTRIES = [*joined({"dvc.lock": LOCK}).entries.values()]
LEDGER = ledger.text([ledger.Scoring("test", "pictures", 9, "0" * 16, "1" * 16, "", "retrieval")])


def wordnet() -> dict[str, str]:
    """Three synsets at their own offsets, each below the one before."""
    first = f"00000000 03 n 01 thing 0 000 {GLOSS.removeprefix('n 0000 ')}"
    second = f"{len(first):08} 03 n 01 animal 0 001 @ 00000000 {GLOSS}"
    third = f"{len(first + second):08} 03 n 02 dog 0 hound 0 001 @ {len(first):08} {GLOSS}"
    places = ("thing", 0), ("animal", len(first)), ("dog", len(first + second))
    index = "".join(f"{word} n 1 0 1 0 {place:08}\n" for word, place in places)
    return {"data.noun": first + second + third, "index.noun": index}


def rows(make: Callable[[int, str, str], Iterable[object]], *, header: str = "", between: str = "\t") -> str:
    """A table of twelve pairs of sentences."""
    kinds = ((f"A {kind} runs {n} .", f"It moves {n} .") for n in range(6) for kind in ("dog", "cat"))
    return header + "".join(between.join(map(str, make(n, *pair))) + "\n" for n, pair in enumerate(kinds))


def label(n: int) -> str:
    return LABELS[n % 3]


def written(write: Callable[[io.BytesIO], object]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def picture(kind: str, mode: str = "RGB") -> bytes:
    values = (np.arange(24 * 24 * 3) * 7 % 256).reshape(24, 24, 3).astype(np.uint8)
    return written(lambda out: Image.fromarray(values).convert(mode).save(out, kind))


def parquet(**columns: Any) -> bytes:
    return written(lambda out: pq.write_table(pa.table(columns), out))


def tar(**members: bytes) -> bytes:
    def write(out: io.BytesIO) -> None:
        with tarfile.open(fileobj=out, mode="w") as opened:
            for name, body in members.items():
                member = tarfile.TarInfo(name.replace("_", "."))
                member.size = len(body)
                opened.addfile(member, io.BytesIO(body))

    return written(write)


def zipped(out: io.BytesIO) -> None:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("a/x", b"1" * 900)
        opened.writestr("a/y", b"2")


def corpus(form: str, **more: Any) -> Callable[[Path], object]:
    """A reader of a corpus, and of the bytes of its pictures that lie in tables and shards."""

    def read(folder: Path) -> object:
        place, pictures = str(folder), str(folder if form == "shards" else folder / "pictures")
        found = read_corpus(CorpusSettings(format=form, path=place, pictures=pictures, require_pictures=False, **more))
        for one in found.images:
            if one.place and one.place.part:
                with contextlib.suppress(OSError):  # documented: the picture is then a reject
                    read_place(one.place, 1 << 20)
        return found

    return read


def source(path: str = "", part: str = "") -> Callable[[Path], object]:
    return lambda folder: read_source(Source(format="snli" if part else "table", path=str(folder / path), part=part))


def precomputed(file: str, ids: str, *wanted: str) -> Callable[[Path], object]:
    values = {"source": "precomputed", "precomputed": file, "precomputed_ids": ids}
    return lambda folder: convert(folder / "out/f.h5", wanted, FeaturesSettings(inputs=str(folder), **values))


def sentences(folder: Path) -> object:
    return list(Sentences(TextSettings(path=str(folder))))


def refused(folder: Path) -> None:
    with pytest.raises(CorpusError, match="holds Arrow files"):
        corpus("table")(folder)


def unpacked(archive: Path) -> object:
    """Unpack; whatever the names, nothing appears elsewhere."""
    place = archive.parent.parent
    into, before = place / "into", {*place.iterdir()}
    into.mkdir()
    try:
        return unpack(archive, into, {"**": ".", "a/**": "a", "*": "."})
    finally:
        assert not any(path.is_symlink() for path in into.rglob("*"))
        shutil.rmtree(into)
        assert {*place.iterdir()} == before


def locked(path: Path) -> object:
    """Read a lock, and ask for all that an audit asks for."""
    lock = joined({"dvc.lock": read_text(path)})
    return [(entry.key, entry.flat_params(), lock.chain(name)) for name, entry in lock.entries.items()]


def recorded(path: Path) -> object:
    facts = KnownFacts([path.parent])
    found = [facts.of(one) or facts.weigh(one) for one in ENTRIES]
    return [scorings_of(one) for one in found if isinstance(one, Mapping)]


def expanded(path: Path) -> object:
    read = grid.load(path)
    return grid.expand(read, grid.base_params(read, REPOSITORY)[1], path) if read.size < 20 else None


def stored(folder: Path) -> object:
    """Read a store; segments whose bytes are not those of their names give no feature."""
    store, features = Store(folder), kept_features.as_bytes(kept_features.some(range(6)))
    found = kept_features.read(store, [*features])
    for path in folder.rglob("*.parquet"):
        assert found.items() <= features.items() or path.name == name_of(path.read_bytes())
    return [*survey(store)]


def fill_store(folder: Path) -> None:
    kept_features.fill(Store(folder), kept_features.KIND, range(6))
    for path in folder.rglob("*.*"):
        path.chmod(0o644)


class Reader(NamedTuple):
    """A reader of files of others."""

    files: Mapping[str, str | bytes] | Callable[[Path], object]
    """The content of each file by its name, or what writes the files into a folder."""
    read: Callable[[Path], object]
    saved: bool = False
    """Whether the files have sums: a changed one is refused or gives an equal value, unless its sums are renewed."""
    errors: tuple[type[Exception], ...] = ()
    """Documented errors of the reader beside those of Sightword."""


def task(name: str, files: Mapping[str, str]) -> Reader:
    return Reader({f"downstream/{file}": text for file, text in files.items()}, lambda folder: read_task(name, folder))


def of(name: str, content: str | bytes | Path, read: Callable[[Path], object], **more: Any) -> Reader:
    """A reader of one file; the content may be that of a file of the repository."""
    data = (REPOSITORY / content).read_bytes() if isinstance(content, Path) else content
    return Reader({name: data}, lambda folder: read(folder / name), **more)


def of_picture(kind: str, mode: str = "RGB") -> Reader:
    read = functools.partial(decode, exif=True, max_pixels=10**6)
    return of(f"a.{kind.lower()}", picture(kind, mode), lambda path: read(path.read_bytes()), errors=(RejectError,))


SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
SNLI = "gold_label\tp\tp\tp\tp\tsentence1\tsentence2\tid\n"
SNLI = rows(lambda n, a, b: (label(n), *"pppp", a, b, "1"), header=SNLI)
JSONL = rows(lambda n, a, b: [json.dumps({"gold_label": label(n), "sentence1": a, "sentence2": b})])
SENTEVAL = {"s1.test": rows(lambda _, a, b: [a]), "s2.test": rows(lambda _, a, b: [b])}
SENTEVAL |= {"labels.test": rows(lambda n, a, b: [label(n)])}
STS = {"input.a": rows(lambda n, a, b: (a, b)), "gs.a": rows(lambda n, a, b: [n % 5])}
SCENES = Path("data/raw/sample/scenes.yaml")
MANY = {f"{n}_{end}": b"A dog %d" % n for n in range(50) for end in ("jpg", "txt")}
PICTURES = [{"bytes": picture("PNG"), "path": f"{number}.png"} for number in range(4)]
CAPTIONS = [["A dog .", "It ."]] * 4
SHARD = {"a_png": picture("PNG"), "a_json": b'{"caption": "A dog"}', "b_png": picture("PNG"), "b_json": b"{}"}
READERS = {
    "flickr8k": Reader(FLICKR, corpus("flickr8k")),
    "karpathy": Reader({"dataset_a.json": json.dumps({"images": KARPATHY})}, corpus("karpathy")),
    "coco": Reader({"captions_train2014.json": json.dumps(COCO)}, corpus("coco", coco_dev=[])),
    "csv": Reader({"a.csv": 'image,caption,split\na.jpg,"A, b",train\nb.jpg,A cat,test\n'}, corpus("table")),
    "tsv": Reader({"a.tsv": 'image\tcaption_0\tcaption_1\tlang\tsplit\na\tA\t[]\ten\tval\n'}, corpus("table")),
    "looked at": of("a.csv", "image,caption\n" + "".join(f'{n}.jpg,"[""A dog"", ""It""]"\n' for n in range(60)), look),
    "parquet": Reader(
        {"train.parquet": parquet(image=list("abcd"), caption=CAPTIONS, split=["val"] * 4)}, corpus("table")
    ),
    "pictures in parquet": Reader({"train.parquet": parquet(image=PICTURES, caption=CAPTIONS)}, corpus("table")),
    "arrow": Reader({"a.arrow": b"ARROW1\0\0" + bytes(64)}, refused),
    "shards": Reader({"train-0.tar": tar(**SHARD)}, corpus("shards", caption="json:caption")),
    "shards looked at": of("0.tar", tar(**MANY), look),
    "bucket's listing": of("l.csv", 'name,address,size,version\na,s3://b/a,7,"v,1"\nb,https://h/b,9,\n', read_listing),
    **{kind: of_picture(kind) for kind in ("PNG", "JPEG", "BMP", "PPM", "AVIF", "JPEG2000")},
    "GIF": of_picture("GIF", "P"),
    "WEBP": of_picture("WEBP", "RGBA"),
    "edges": of("e.csv", EDGES, lambda path: closure(read_edges(path, ["hypernym"]), paths=True)),
    "edges.gz": of("e.csv.gz", gzip.compress(EDGES.encode()), lambda path: read_edges(path, ["hypernym"])),
    "pairs": of("p.tsv", "hyponym\thypernym\tlabel\ndog\tcat\t1\n", lambda path: read_pairs(path, IDS)),
    "ganea2018": Reader(
        {"n.tsv.vocab": "0\tdog\n1\tcat\n2\tanimal\n", "n.tsv.test": "2\t0\n2\t1\n", "n.tsv.test_neg": "0\t1\n"},
        lambda folder: read_pairs(folder / "n.tsv.test", IDS),
    ),
    "wordnet": Reader(wordnet(), lambda folder: read_wordnet(folder, ["hypernym"])),
    "scenes": of("scenes.yaml", SCENES, lambda path: (load_world(path), read_scenes(path.parent))),
    "snli.jsonl": Reader({"snli_1.0_test.jsonl": JSONL}, source(part="test")),
    "snli of senteval": Reader(SENTEVAL, source(part="test")),
    "sentence pairs.csv": Reader({"a.csv": 'premise,hypothesis,label\n"A, b","It ""is""",neutral\n'}, source("a.csv")),
    "sts": task("STSOwn", {f"STS/STSOwn-en-test/STS.{name}.txt": text for name, text in STS.items()}),
    "sts benchmark": task("STSBenchmark", {
        f"STS/STSBenchmark/sts-{part}.csv": rows(lambda n, a, b: ("main", "f", 2012, n, n % 5, a, b)) for part in PARTS
    }),
    "sts of languages": task("STSBenchmark-de-en", {
        f"STS/STSBenchmark-multi/stsb-{one}.csv": rows(lambda n, a, b: (a, b, n % 5), between=",")
        for one in (f"{code}-{part}" for code in ("de", "en") for part in PARTS)
    }),
    "sick": task("SICKRelatedness", {
        f"SICK/SICK_{part}.txt": rows(lambda n, a, b: (n, a, b, 1 + n % 4, label(n).upper()), header=SICK)
        for part in ("train", "trial", "test_annotated")
    }),
    "mrpc": task("MRPC", {
        f"MRPC/msr_paraphrase_{part}.txt": rows(lambda n, a, b: (n % 2, 1, 2, a, b), header=MRPC)
        for part in ("train", "test")
    }),
    "trec": task("TREC", {
        f"TREC/{name}.label": "".join(f"{kind}:x Who ?\n" for kind in ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"))
        for name in ("train_5500", "TREC_10")
    }),
    "sst2": task("SST2", {f"SST/binary/sentiment-{part}": rows(lambda n, a, b: (a, n % 2)) for part in PARTS}),
    "mr": task("MR", {f"MR/rt-polarity.{part}": rows(lambda n, a, b: [a]) for part in ("pos", "neg")}),
    "ratings": of("r.txt", "Word\tBigram\tConc.M\ndog\t0\t4.9\nidea\t0\t1.6\n", read_ratings),
    "vectors": of("v.txt", "3 2\ndog 0.5 1\ncat 1e-3 -2\n. 0 0\n", lambda path: BagOfWords(path)(["dog cat ."])),
    "text": Reader({"a.txt": TEXT, "books.csv": "file,first_line\na.txt,1\na.txt,4\n"}, sentences),
    "text.gz": Reader({"a.txt.gz": gzip.compress(TEXT.encode())}, sentences),
    "curve": of("c.tsv", 'step\tloss\n1\t0.5\n2\t"0.25"\n', lambda path: numbers(read_tsv(path), "loss", where=path)),
    "npy": Reader(
        {"f.npy": written(lambda out: np.save(out, np.ones((2, 3), np.float32))), "ids.txt": "a.jpg\nb.jpg\n"},
        precomputed("f.npy", "ids.txt", "a.jpg", "b.jpg"),
    ),
    "features of others": Reader(THINGS["features"][0], precomputed("features.h5", "", "p0", "p1")),
    "weights.safetensors": of("w.safetensors", Path("sightword/pretrained/flickr8k/part-2.safetensors"), weights._read),
    "weights.pth": of("w.pth", written(lambda out: torch.save({"a": torch.ones(2, 3)}, out)), weights._read),
    "params": of("params.yaml", Path("params.yaml"), params_file.load),
    "recipe": of("r.yaml", Path("recipes/multi30k-de.yaml"),
                 lambda path: overlay.resolve(recipes.find(str(path), REPOSITORY), REPOSITORY)),
    "grid": of("grid.yaml", GRID, expanded),
    "dvc.yaml": Reader({name: (REPOSITORY / name).read_bytes() for name in ("dvc.yaml", "params.yaml")},
                       lambda folder: Pipeline(folder, "").runs()),
    "dvc.lock": of("dvc.lock", "".join(re.split(r"(?m)^(?=  \S.*:$)", LOCK)[:4]), locked),
    "data.dvc": of("a.dvc", TRACKED, lambda path: tracked_hashes(read_text(path), "a.dvc")),
    "facts": of("f.json", Path("runs/first/train.json"), recorded),
    "metrics": of("m.json", METRICS, lambda path: read_scores("metrics/m.json", path.read_bytes())),
    "entry of metrics": of("m.json", METRICS, lambda path: find_entry(read_json(path), "test.r1", path)),
    "rows of results": of("objectives.jsonl", Path("study/results/semantics.jsonl"), read_topic),
    "tables of results": Reader({"study/pages/tables.yaml": TABLES}, tables.load),
    "ledger": of("scorings.csv", LEDGER, ledger.read),
    "code list": of("a.txt", f"{'0' * 64}  sightword/a.py\n", lambda path: code_lists.read(path.parent, "a.txt")),
    "download's record": of("d.json", '{"size": 7}', lambda path: fetching._record(path.with_suffix(""))),
    "snli of a download": Reader({f"snli_1.0_{part}.txt": SNLI for part in PARTS}, fetching.split_snli),
    "zip": of("a.zip", written(zipped), unpacked),
    "tar": of("a.tar", tar(x=b"1" * 900, y=b"2"), unpacked),
    "tar.gz": of("a.tar.gz", gzip.compress(tar(x=b"1" * 900, y=b"2")), unpacked),
    "store": Reader(fill_store, stored),
    **{name: Reader(write, read, saved=True) for name, (write, read, _) in THINGS.items()},
}  # fmt: skip
"""Each reader of files that are not Sightword's own, or may be those of another user."""


def fit(path: Path, folder: Path) -> None:
    """Give a changed file the sums that belong to it, as whoever means the change would."""
    if path.suffix == ".json" and b'"ran"' in path.read_bytes():
        facts = json.loads(path.read_bytes())
        path.write_text(json.dumps({**facts, "id": run_id(entry_key(facts["stage"], **facts["ran"]), facts["outs"])}))
    if SEGMENT_NAME.fullmatch(path.name):
        path.rename(path.with_name(name_of(path.read_bytes())))
    elif path.suffix == ".h5":
        hdf5.seal(path)
    elif summed := re.fullmatch(r"(.+-)[0-9a-f]{64}(\.safetensors)", path.name):
        path.rename(path.with_name(hashlib.sha256(path.read_bytes()).hexdigest().join(summed.groups())))
    for above in path.relative_to(folder).parents if path.name != "SHA256SUMS" else ():
        if (folder / above / "SHA256SUMS").is_file():
            renew(folder / above)


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a folder, and delete others."""
    for path in folder.rglob("*"):
        if not path.is_dir() and path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def damaged(name: str, number: int, whole: Mapping[str, bytes], folder: Path) -> tuple[str, bool]:
    """Write the fault of a number; the file, and whether its sums were renewed."""
    draw = random.Random(f"{name} {number}")
    file = draw.choice(sorted(whole))
    write(whole, folder)
    (folder / file).write_bytes(faulty(file, whole[file], draw))
    renewed = bool(draw.randrange(2))
    if renewed:
        with contextlib.suppress(Exception):  # what is no such file has no such sums
            fit(folder / file, folder)
    return file, renewed


def read_damaged(name: str, reader: Reader, numbers: Iterable[int], folder: Path, now: memoryview) -> str:
    """Read the folder with each fault; what was wrong with the last one, or nothing."""
    logging.disable()
    faulthandler.disable()
    warnings.simplefilter("ignore")
    whole = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    expected = plain(reader.read(folder))
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    for number in itertools.takewhile(lambda _: time.process_time() < SPAN, numbers):
        now[0] = number
        file, renewed = damaged(name, number, whole, folder)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, 60 * SECONDS)  # without work of the processor
        said = ""
        try:
            found = reader.read(folder)
        except (SightwordError, *reader.errors) as error:
            said = str(error)
        except Exception:  # noqa: BLE001 - whatever a reader does
            return f"{file}: {traceback.format_exc()[-3000:]}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        if max(map(len, said.split("\n"))) > LONGEST or (
            reader.saved and not (said or renewed) and plain(found) != expected
        ):
            return f"{file}: {said[:LONGEST] or 'was read as other values'}"
    return ""


def hunt(name: str, reader: Reader, numbers: Iterable[int], place: Path) -> None:
    """Read each fault in a process of its own; AssertionError with the number of a fault that is no value or error."""
    folder, told = place / "files", place / "told"
    if callable(reader.files):
        reader.files(folder)
    else:
        write({file: text.encode() if isinstance(text, str) else text for file, text in reader.files.items()}, folder)
    now = memoryview(mmap.mmap(-1, 8)).cast("q")
    if not (child := os.fork()):
        try:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            told.write_text(read_damaged(name, reader, numbers, folder, now) or "done")
        except BaseException:  # noqa: BLE001 - the process ends
            told.write_text(traceback.format_exc())
        finally:
            os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    why = told.read_text() if told.exists() else f"the process ended by {signal.Signals(-ended).name}"
    assert why == "done", f"{name!r}, fault {now[0]}: {why}"


@pytest.mark.parametrize("count", [QUICK, pytest.param(FULL, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", READERS)
def test_damaged_file_is_a_value_or_one_short_message(name: str, count: int, tmp_path: Path) -> None:
    hunt(name, READERS[name], range(count), tmp_path)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (lambda path: {}[path.name], "KeyError: 'a.txt'"),
        (lambda _: os.abort(), "SIGABRT"),
        (lambda _: all(itertools.repeat(1)), "SIGPROF"),
        (lambda _: bytearray(2 * MEMORY), "MemoryError"),
        (lambda path: path.read_bytes(), "read as other values"),
    ],
)
def test_broken_reader_fails_with_its_fault(broken, why: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SECONDS", 0.3)

    def read(path: Path) -> object:
        return b"whole" if path.read_bytes() == b"whole" else broken(path)

    with pytest.raises(AssertionError, match=f"'broken', fault [01]: (?s:.)*{why}"):
        hunt("broken", of("a.txt", b"whole", read, saved=True), range(40), tmp_path)
