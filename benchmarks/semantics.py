"""Judging an encoder on the test pairs of SentEval's files beside the ways people use, with equal scores, in one run.

The encoder is the character GRU of Merkx & Frank (2019), untrained: its time is that of a trained one. Everything is
float32, and padding has no weight in the attention. Ours is :func:`sightword.evaluate`: each distinct sentence of all
tasks once. The sides:

- published: SentEval's loop, by the network as it was released. Each task encodes both sides of its pairs, sorted by
  the number of words, 128 at a time, through torch's bidirectional GRU over packed sequences;
- sentence-transformers, where it is installed: its EmbeddingSimilarityEvaluator on the encoder as its model, with
  batches of 128;
- mteb, where it is installed: a task of AbsTaskSTS for each file, on the same model, with batches of 128.

With ``--quick`` the tasks are STSBenchmark and SICKRelatedness, and the GRU has 256 states in place of 1,024.

The last line is JSON: ratio, and cost of each side, in processor seconds over ours (least, median, most);
score_difference, the largest between Pearson's correlations of cosine and gold; milliseconds; sentences, distinct.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import common
import numpy as np
import torch

from sightword import evaluate
from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.semantics.datasets import RatedPairs
from sightword.evaluation.semantics.relatedness import cosine
from sightword.evaluation.semantics.settings import TASKS
from sightword.export.sentence_transformers import SightwordModule
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings
from sightword.statistics.inference import pearson

BATCH = 128
"""SentEval's."""
Files = dict[str, RatedPairs]
Scores = dict[str, float]
"""Pearson's r of cosine and gold in each file."""


def senteval(network: common.Published, vocabulary: Vocabulary, files: Files) -> Scores:
    found = {}
    for file, pairs in files.items():
        rows = zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True)
        ordered = sorted(rows, key=lambda row: (len(row[0].split()), len(row[1].split()), row[2]))
        cosines = []
        for start in range(0, len(ordered), BATCH):
            sides = [*zip(*ordered[start : start + BATCH], strict=True)][:2]
            vectors = (common.encode(network, vocabulary, [*side], BATCH, ordered=False) for side in sides)
            cosines.append(cosine(*vectors))
        found[file] = pearson(np.concatenate(cosines), np.array([row[2] for row in ordered])) or 0.0
    return found


def by_evaluators(model: Any, files: Files) -> Scores:
    """Those of sentence-transformers."""
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    found = {}
    for file, pairs in files.items():
        texts = ([*pairs.first], [*pairs.second], pairs.gold.tolist())
        evaluator = EmbeddingSimilarityEvaluator(*texts, main_similarity="cosine", batch_size=BATCH, write_csv=False)
        found[file] = float(evaluator(model)["pearson_cosine"])
    return found


def by_mteb(model: Any, files: Files) -> Scores:
    import mteb
    from datasets import Dataset

    found, encode = {}, {"batch_size": BATCH, "show_progress_bar": False}
    for file, pairs in files.items():
        task = mteb.get_task("STSBenchmark")
        columns = {"sentence1": [*pairs.first], "sentence2": [*pairs.second], "score": pairs.gold.tolist()}
        task.dataset, task.data_loaded = {"test": Dataset.from_dict(columns)}, True
        options = {"cache": None, "co2_tracker": False, "show_progress_bar": False, "encode_kwargs": encode}
        found[file] = float(mteb.evaluate(model, task, **options).task_results[0].scores["test"][0]["cosine_pearson"])
    return found


def main() -> None:
    arguments = common.parser(__doc__).parse_args()
    torch.set_num_threads(arguments.threads)
    tiny, quick, data = arguments.tiny, arguments.quick, arguments.data / "senteval"
    tasks = TASKS[5 : 6 if tiny else 7] if tiny or quick else TASKS
    empty = evaluate(lambda texts: np.ones((len(texts), 1)), tasks, data, trained_head=False)
    files = {f"{row.task} {row.subtask}": row.pairs for row in empty.judged}
    sentences = [text for pairs in files.values() for text in (*pairs.first, *pairs.second)]
    vocabulary = Vocabulary.build(sentences)
    torch.manual_seed(0)
    settings = ModelSettings(hidden=16 if tiny else 256 if quick else 1024)
    encoders = Encoders(len(vocabulary), 1, settings.shape).eval()
    encoder = SentenceEncoder(parts_of([encoders], vocabulary, settings.shape))
    network = common.Published(encoders.captions).eval()

    def ours(_: int) -> Scores:
        found = evaluate(lambda some: encoder.encode(some, batch_size=256), tasks, data, trained_head=False)
        return {f"{row.task} {row.subtask}": row.entry["pearson"] for row in found.judged}

    sides: dict[str, Callable[[int], Scores]] = {"ours": ours}
    sides["published"] = lambda _: senteval(network, vocabulary, files)
    if find_spec("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(modules=[SightwordModule(encoder)], device="cpu")
        sides["sentence-transformers"] = lambda _: by_evaluators(model, files)
        if find_spec("mteb"):
            sides["mteb"] = lambda _: by_mteb(model, files)
    scores: dict[str, Scores] = {}
    took = common.in_turn(sides, 1 if tiny else 3, look=lambda _, side, found: scores.update({side: found}))
    cost = common.costs(took, "test pairs")
    largest = max(abs(found[file] - scores["ours"][file]) for found in scores.values() for file in files)
    print(json.dumps({
        "ratio": cost["published"][2], "cost": {side: numbers[1:] for side, numbers in cost.items()},
        "score_difference": largest, "milliseconds": {side: numbers[0] for side, numbers in cost.items()},
        "sentences": len(sentences), "distinct": len(set(sentences)),
        "threads": arguments.threads, "torch": torch.__version__,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
