"""The few numbers for comparing experiments: flat, short, and with the same keys for every evaluation."""

from __future__ import annotations

from itertools import product

from sightword.evaluation.semantics.results import mean_of_seven
from sightword.messages import flat
from sightword.report.gallery import headline_split
from sightword.report.inputs import RunNumbers
from sightword.report.number_formats import is_number
from sightword.vse.page.semantics_table import headline

DIRECTIONS = (("image", "caption_to_image"), ("caption", "image_to_caption"))
"""The direction of each kind of answer."""
PROTOCOLS = (("", "full"), ("_1k", "five_fold_1k"), ("_querybank", "querybank"))


def summary(run: RunNumbers) -> dict[str, float | str]:
    """Return the content of ``metrics/summary.json``.

    Returns:
        ``dev_r10``: mean recall@10 of both directions on dev, which selects models. Then, for the scored ``split``, in
            percent: ``image_r1`` and ``image_r10`` (pictures found by captions), ``caption_r1`` and ``caption_r10``
            (captions found by pictures), the same with ``_1k`` for five folds, and with ``_querybank`` for scores
            with a query bank. As fractions: ``sts``, the mean of Pearson's r over all STS subtasks, ``stsb`` and
            ``sick``, Pearson's r of the test pairs' cosines, and ``seven``, Spearman's mean over the seven tasks
            (:func:`sightword.evaluation.semantics.results.mean_of_seven`). Missing numbers are left out.
    """
    found: dict[str, object] = {"dev_r10": run.select.get("ensemble_r10")}
    retrieval, semantics, mean = flat(run.retrieval), flat(run.semantics), headline(run.semantics)
    if run.retrieval:
        split = found["split"] = headline_split(run.retrieval)
        for (suffix, protocol), (short, direction), recall in product(PROTOCOLS, DIRECTIONS, ("r1", "r10")):
            found[f"{short}_{recall}{suffix}"] = retrieval.get(f"{split}.{protocol}.{direction}.{recall}")
    found["sts"] = mean and mean[1]
    found["stsb"] = semantics.get("STSBenchmark.cosine.pearson")
    found["sick"] = semantics.get("SICKRelatedness.cosine.pearson")
    found["seven"] = mean_of_seven(run.semantics)
    return {name: value for name, value in found.items() if is_number(value) or isinstance(value, str)}
