"""What pictures add to counting, by dose: differences of Pearson's r with people's scores (design: study/README.md).

``python -m study.doses PROJECT`` in the repository's folder writes the row ``draws/gains``. PROJECT has the experiments
of study/recipes/grid-draws.yaml, or some of them, and the raw data that they read. With ``draws/gru``,
``draws/german`` or ``grounded/books`` behind it, it writes that row, of grid-draws-gru.yaml, grid-german.yaml or
grid-books.yaml; the last in Spearman's correlation (design: pages/grounded.md).

The score of a pair is the encoder's cosine; with tf-idf it is ``w`` times this cosine and ``1 - w`` times that of
tf-idf, as of an encoder with a lexical part (``select.lexical_share: 1 - w``). Intervals and tests take Student's
distribution with the degrees of freedom of Satterthwaite (1946): one less than draws for the part of the draws,
infinitely many for that of the pairs. Of one draw they are over pairs alone, and too sure.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import diags_array
from scipy.sparse.linalg import norm, svds
from scipy.stats import t
from tqdm import tqdm

from pipeline.lineage.files import Cache, hash_listing, md5_of, take_out
from pipeline.lineage.repository import Repository
from sightword.captions.table import read_texts
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.published import in_mean
from sightword.evaluation.semantics.datasets import RatedPairs, RelatednessTask, read_task
from sightword.evaluation.semantics.relatedness import TfIdf, cosine
from sightword.evaluation.semantics.results import ScoredPairs, read_pairs
from sightword.grounded.judging.measuring import BENCHMARK, read_parts
from sightword.io import yaml_reader
from sightword.statistics.bootstrap import resampled_pearson, resampled_spearman
from sightword.statistics.inference import holm, pearson, spearman
from study.rows import Row, Run, Score, write_row

Doubles = NDArray[np.float64]
Task = tuple[str, str]
KINDS = {"real": "right", "shuffled": "wrong", "none": "none"}
"""The kinds of encoders by ``train.pictures``."""
FIXED, WEIGHTS = 0.6, np.linspace(0, 1, 11)
"""The weight of an encoder with tf-idf that was fixed in advance, and those from which the dev pairs choose."""
FLOOR, LSA, RANDOM = "tf-idf alone", "lsa alone", "random alone"
FAMILY = {
    "counting": ("right fixed", FLOOR),
    "wrong": ("right fixed", "wrong fixed"),
    "none": ("right fixed", "none fixed"),
    "lsa": ("right fixed", "lsa fixed"),
    "none-alone": ("right alone", "none alone"),
    "wrong-alone": ("right alone", "wrong alone"),
}
"""What gains, and above what: the tests that Holm's correction is for. The first two gains are those of the primary
claim, and are shown by genre too."""
OTHERS = {
    "counting-alone": ("right alone", FLOOR),
    "counting-wrong": ("wrong fixed", FLOOR),
    "counting-none": ("none fixed", FLOOR),
    "counting-lsa": ("lsa fixed", FLOOR),
    "counting-gru": ("gru fixed", FLOOR),
    "counting-chosen": ("right chosen", FLOOR),
    "wrong-chosen": ("right chosen", "wrong chosen"),
    "second": ("none fixed", FLOOR),
}
"""Gains that are described; ``second`` has two captions a picture, and is above tf-idf of one of them."""
EXPERIMENTS = {"gains": "draws-train_pictures", "gru": "draws-gru-", "german": "german-", "books": "books-"}
"""The beginning of the names of the experiments for each row."""
IMAGE_CAPTIONS = (("STS12", "MSRvid"), ("STS14", "images"), ("STS15", "images"))
"""The subtasks of STS12 to STS16 whose sentences describe pictures or videos."""
T, SHARED, GROUNDED = "t", "cid_only-pid_only", "cg_only-pg_only"
BY_TEXT = {"counting": (f"{GROUNDED} fixed", FLOOR)} | {
    f"{name}-{weight}": (f"{GROUNDED} {weight}", f"{name} {weight}")
    for weight, name in product(("fixed", "alone"), (SHARED, T, f"random-{GROUNDED}"))
}
BY_TEXT["most"] = (f"most-{GROUNDED} alone", f"fewest-{GROUNDED} alone")
"""The family of the amounts of text, by scenario: with random weights, or the fewest or most books, at each amount."""
AMOUNTS = {0: "random", 11: "fewest", 89: "most"}
NUMBERS, SAMPLES = 128, 2000
"""Numbers of a vector of LSA, as many as of an encoder's; and resamples."""


class System(NamedTuple):
    """What scores pairs: a kind with its weight, the pictures and captions, their draw, and the seed (-1: none)."""

    name: str
    pictures: int
    captions: int
    draw: int
    seed: int = -1


Known = Mapping[System, Doubles]
"""The correlation of each system in a test (1 + R,): of all pairs, and of each resample of the pairs."""
Scores = dict[System, dict[Task, Doubles]]
"""The scores of the pairs of each task."""


def gain(known: Known, sides: tuple[str, str], doses: Sequence[tuple[int, int]], other: int) -> Doubles:
    """Return the gain (D, 1 + R) of each of the draws that have all doses on both sides, the mean over doses and seeds.

    A seed counts if both sides have it. ``other`` are the captions a picture of the second side.
    """
    by_draw = []
    for draw in sorted({one.draw for one in known}):
        by_dose = []
        for dose in doses:
            ours = [one for one in known if one[:4] == (sides[0], *dose, draw)]
            theirs = [System(sides[1], dose[0], other, draw, one.seed) for one in ours]
            theirs = [one if one in known else one._replace(seed=-1) for one in theirs]
            by_dose.append([known[a] - known[b] for a, b in zip(ours, theirs, strict=True) if b in known])
        if by_dose and all(by_dose):
            by_draw.append(np.mean([np.mean(gains, axis=0) for gains in by_dose], axis=0))
    return np.array(by_draw)


def judged(gains: Doubles) -> tuple[Score, float]:
    """Return the mean of gains (D, 1 + R) with its 95 % interval, and the two-sided p of no gain."""
    value, draws = float(gains[:, 0].mean()), len(gains)
    over_draws = float(np.var(gains[:, 0], ddof=1)) / draws if draws > 1 else 0.0
    variance = float(np.var(gains[:, 1:].mean(axis=0), ddof=1)) + over_draws
    error, freedom = np.sqrt(variance), (draws - 1) * (variance / over_draws) ** 2 if over_draws else np.inf
    half = float(t.ppf(0.975, freedom) * error)
    score = Score(value=round(value, 6), low=round(value - half, 6), high=round(value + half, 6))
    return score, float(2 * t.sf(abs(value) / error, freedom))


def scores_of(
    tests: Mapping[str, Known],
    family: Mapping[str, tuple[str, str]] = FAMILY,
    others: Mapping[str, tuple[str, str]] = OTHERS,
) -> dict[str, Score]:
    """Return mean correlations as ``note.mean.KIND.WEIGHT.PICTURES-CAPTIONS.TEST``, and gains as ``note.gain.…``.

    Gains are named ``GAIN.PICTURES-CAPTIONS.TEST``, and their means over pictures ``GAIN.CAPTIONS.TEST``. The means of
    the family have ``p`` and ``corrected``; ``note.primary.p`` is the larger p of the primary claim.
    """
    found: dict[str, Score] = {}
    p: dict[str, float] = {}
    doses = sorted({one[1:3] for known in tests.values() for one in known})
    for test, known in tests.items():
        part = "." in test
        gains = dict([*family.items()][:2]) if part else {**family, **others}
        if test == "sts":  # a tenth of its pairs are dev pairs, by which these weights were chosen
            gains = {name: sides for name, sides in gains.items() if "chosen" not in sides[0]}
        for name, sides in gains.items():
            for captions in [2] if name == "second" else sorted({captions for _, captions in doses}):
                other = 1 if name == "second" else captions
                alike = [dose for dose in doses if dose[1] == captions]
                for label, some in [*((f"{dose[0]}-{other}", [dose]) for dose in alike), (f"{other}", alike)]:
                    if len(own := gain(known, sides, some, other)):
                        place = f"note.gain.{name}.{label}.{test}"
                        found[place], chance = judged(own)
                        if name in family and some is alike and not part:
                            p[place] = chance
        for name, pictures, captions in () if part else {one[:3]: 0 for one in known}:
            values = [own[0] for one, own in known.items() if one[:3] == (name, pictures, captions)]
            place = f"note.mean.{name.replace(' ', '.')}.{pictures}-{captions}.{test}"
            found[place] = Score(value=round(float(np.mean(values)), 6))
    for place, corrected in zip(p, holm([*p.values()]), strict=True):
        found |= {f"{place}.p": Score(value=p[place]), f"{place}.corrected": Score(value=corrected)}
    primary = [p.get(f"note.gain.{name}.{doses[0][1]}.{BENCHMARK}") for name in [*family][:2]]
    both = [one for one in primary if one is not None]
    return {**found, "note.primary.p": Score(value=max(both))} if both == primary else found


def mixed(scores: Scores, gold: Mapping[Task, Doubles]) -> dict[str, float]:
    """Add each system with tf-idf of its captions, at the fixed weight and at the one that is best on the dev pairs.

    Return the chosen weights, one for each kind and dose. ``gold`` has people's scores of the dev pairs.
    """

    def beside(one: System, task: Task, weight: float) -> Doubles:
        return weight * scores[one][task] + (1 - weight) * scores[one._replace(name=FLOOR, seed=-1)][task]

    chosen = {}
    for name, pictures, captions in {one[:3]: 0 for one in scores if one.name not in (FLOOR, RANDOM)}:
        some = [one for one in scores if one[:3] == (name, pictures, captions)]
        on_dev = [
            sum(pearson(beside(one, task, weight), own) or 0.0 for one in some for task, own in gold.items())
            for weight in WEIGHTS
        ]
        kind = name.removesuffix(" alone")
        best = chosen[f"{kind}.{pictures}-{captions}"] = float(WEIGHTS[int(np.argmax(on_dev))])
        for one in some:
            for label, weight in {"fixed": FIXED, **({"chosen": best} if gold else {})}.items():
                scores[one._replace(name=f"{kind} {label}")] = {task: beside(one, task, weight) for task in scores[one]}
    return chosen


def counted(
    captions: Sequence[str], pairs: Mapping[Task, RatedPairs | ScoredPairs], numbers: int = NUMBERS
) -> dict[str, dict[Task, Doubles]]:
    """Return the scores of tf-idf and of LSA, which know the captions alone, for all pairs.

    LSA takes the largest right singular vectors of the captions' vectors of unit length.
    """
    tfidf = TfIdf(captions)
    tfidf.prepare([*captions, *(text for part in pairs.values() for text in (*part.first, *part.second))])
    rows = tfidf.vectors(captions)
    rows = diags_array(1 / norm(rows, axis=1)) @ rows
    *_, basis = svds(rows, numbers, v0=np.ones(min(rows.shape)))
    found: dict[str, dict[Task, Doubles]] = {FLOOR: {}, LSA: {}}
    for task, part in pairs.items():
        found[FLOOR][task] = tfidf.cosines(part.first, part.second)
        found[LSA][task] = cosine(*(tfidf.vectors(side) @ basis.T for side in (part.first, part.second)))
    return found


def correlations(
    scores: Scores, pairs: Mapping[Task, ScoredPairs], genres: Sequence[str],
    measure: Callable[..., float | None] = pearson, resampled: Callable[..., Doubles] = resampled_pearson,
) -> dict[str, dict[System, Doubles]]:  # fmt: skip
    """Return the correlations of all systems by test.

    The tests are STSBenchmark, as a whole and by genre, SICKRelatedness, and ``sts``, the mean of the subtasks of STS12
    to STS16: of all, of :data:`IMAGE_CAPTIONS`, and of the others.
    """
    found: dict[str, list[Doubles]] = {}
    for key, part in tqdm(pairs.items(), desc="tasks", unit="task"):
        every, whole = np.array([own[key] for own in scores.values()]), np.ones(len(part), bool)
        kinds = {key[0]: whole}
        if key[0] == BENCHMARK:
            kinds |= {f"{BENCHMARK}.{genre}": np.array(genres) == genre for genre in sorted({*genres})}
        if in_mean(key):
            kinds = {"sts": whole, f"sts.{'captions' if key in IMAGE_CAPTIONS else 'others'}": whole}
        for test, chosen in kinds.items():
            gold, own = part.gold[chosen], every[:, chosen]
            drawn = resampled(gold, own, samples=SAMPLES, seed=0, name="\t".join(key))
            found.setdefault(test, []).append(np.column_stack([[measure(gold, one) or 0.0 for one in own], drawn]))
    return {test: dict(zip(scores, np.mean(every, axis=0), strict=True)) for test, every in found.items()}


def experiments(project: Path, name: str, files: Sequence[str]) -> Iterator[tuple[str, Path, dict[str, str]]]:
    """Yield each experiment whose name begins so, a folder with these files of it, and their hashes by name.

    All folders leave at the end.
    """
    cache = Cache(project)
    with Repository(project) as repository, tempfile.TemporaryDirectory() as folder:
        every = [one for one in repository.experiments() if str(one.experiment).startswith(name)]
        for commit in tqdm(every, desc="experiments", unit="run"):
            place = Path(folder) / commit.sha
            take_out(files, place, lock=repository.lock(commit), commit=commit, cache=cache, repository=repository)
            held = sorted(file for file in place.rglob("*") if file.is_file())
            yield (
                str(commit.experiment),
                place,
                {f"{commit.experiment}/{file.relative_to(place)}": md5_of(file) for file in held},
            )


def draws(project: Path, genres: Sequence[str], name: str) -> tuple[list[int], dict[str, str], dict[str, Score]]:
    """Return the seeds of all experiments of the draws, a hash of the experiments' files, and the gains."""
    names = [f"{BENCHMARK}-de"] if name == "german" else [BENCHMARK, "SICKRelatedness"]
    tasks = [read_task(one, project / "data/raw/senteval") for one in names]
    dev = {(one.name, "dev"): one.dev for one in tasks if isinstance(one, RelatednessTask)}
    scores: Scores = {}
    tests: dict[Task, ScoredPairs] = {}
    captions, hashes = dict[System, list[str]](), dict[str, str]()
    files = ["data/semantics/pairs.parquet", "models/encoder", "data/captions/captions.parquet", "params.yaml"]
    for _, place, held in experiments(project, EXPERIMENTS[name], files):
        hashes |= held
        pairs, encoder, texts, values = (place / file for file in files)
        params = yaml_reader.parse(values.read_text("utf-8"), values)
        own, train = params["captions"], params["train"]
        kind = "gru" if train["cell"] == "gru" else KINDS[train["pictures"]]
        kind = RANDOM if train["rate_max"] < 1e-9 else f"{kind} alone"
        system = System(kind, own["train_pictures"], own["train_captions"], own["draw_seed"], train["seed"])
        tests = read_pairs(pairs).subtasks
        encode = SentenceEncoder.load(encoder).encode
        scores[system] = {key: part.score for key, part in tests.items()}
        scores[system] |= {key: cosine(encode(part.first), encode(part.second)) for key, part in dev.items()}
        captions[system._replace(name=FLOOR, seed=-1)] = read_texts(texts).split("train").texts
    for system, some in tqdm(captions.items(), desc="draws", unit="draw"):
        both = counted(some, {**tests, **dev})
        scores |= {system._replace(name=name): one for name, one in both.items()}
    seeds = [one.seed for one in scores if one.seed >= 0]
    chosen = mixed(scores, {key: part.gold for key, part in dev.items()})
    found = scores_of(correlations(scores, tests, genres))
    found |= {f"note.weight.{name}": Score(value=weight) for name, weight in chosen.items()}
    added = [one for one in scores if one.name in (FLOOR, LSA) or not one.name.endswith(" alone")]
    found[f"note.scorings.{'german' if name == 'german' else 'sts'}"] = Score(value=len(added))
    return seeds, {"experiments": hash_listing(hashes)}, found


def amounts(project: Path, genres: Sequence[str], name: str) -> tuple[list[int], dict[str, str], dict[str, Score]]:
    """Return the seeds of all encoders by amount of text, a hash of the experiments' files, and the gains.

    The pictures of a system are its novels, and each seed is a draw.
    """
    scores: Scores = {}
    hashes = dict[str, str]()
    files = ["data/grounded", "data/corpus/captions.parquet"]
    for experiment, place, held in experiments(project, EXPERIMENTS[name], files):
        hashes |= held
        captions = read_texts(place / "data/corpus/captions.parquet").split("train").texts
        for path in sorted(place.glob("data/grounded/*/pairs.parquet")):
            (scenario, _, seed), tests = path.parent.name.rpartition("-"), read_pairs(path).subtasks
            system = System(f"{scenario} alone", int(experiment.split("-")[1]), 5, int(seed), int(seed))
            scores[system] = {key: part.score for key, part in tests.items()}
    seeds, floor = [one.seed for one in scores], counted(captions, tests, numbers=1)[FLOOR]
    scores |= {one._replace(name=FLOOR, seed=-1): floor for one in [*scores]}
    mixed(scores, {})
    found = correlations(scores, tests, genres, spearman, resampled_spearman)
    others = {
        f"counting-{start}{name}-{weight}": (f"{start}{name} {weight}", FLOOR)
        for start, name, weight in product(("", "random-"), (T, SHARED, GROUNDED), ("alone", "fixed"))
    }
    gains = scores_of({test: at_each(known) for test, known in found.items()}, BY_TEXT, others)
    gains["note.scorings.pairs"] = Score(value=len(seeds) + 1)
    return seeds, {"experiments": hash_listing(hashes)}, gains


def at_each(known: Known) -> Known:
    """Return the systems that read books, and those of :data:`AMOUNTS` by their other names at each amount."""
    read = {one: own for one, own in known.items() if one.pictures}
    ends = [one for one in known if one.pictures in AMOUNTS]
    return read | {
        one._replace(name=f"{AMOUNTS[one.pictures]}-{one.name}", pictures=books): known[one]
        for one, books in product(ends, {one.pictures for one in read})
    }


def main() -> None:
    """Write the gains."""
    project = Path(sys.argv[1])
    topic, name = (sys.argv[2:] or ["draws/gains"])[0].split("/")
    (benchmark,), _ = read_parts([BENCHMARK], project / "data/raw/senteval")
    seeds, inputs, found = {"draws": draws, "grounded": amounts}[topic](project, benchmark.genres or (), name)
    run = Run(seeds=sorted({*seeds}), inputs=inputs, scores=found)
    note = f"Calculated by `study/doses.py` from {len(seeds)} encoders of its grid"
    print(write_row(Path(), Row(topic=topic, name=name, recipe=None, note=note, runs=[run])))


if __name__ == "__main__":
    main()
