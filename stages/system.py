"""Declarations of the first pipeline: see :mod:`pipeline.systems`."""

from __future__ import annotations

from typing import Any

from pipeline.systems import start
from stages.checks import CHECKS
from stages.select import BESIDE

__all__ = ["CHECKS", "SEED", "conflicts", "encoders"]

SEED = "train.seed"


def conflicts(values: dict[str, dict[str, Any]]) -> list[str]:
    """Return the conflicts between two sections, so that they are reported before costly work."""
    problems = []
    if "train" in values and "select" in values:
        joined = values["select"]["beside"] or values["select"]["lexical"]
        train, members = values["train"], values["select"]["members"]
        kept, causes = train["epochs"] // train["cycle"], "train.epochs, train.cycle"
        if train["cell"] == "tfidf":
            kept, causes = 1, "train.cell: tfidf"
        if members > kept:
            problems.append(f"select.members = {members}: there are {kept} to choose from ({causes})")
        for key in ("beside", "lexical"):
            if values["select"][key] and train["similarity"] != "cosine":
                what = "parts stand beside an encoder of the cosine only"
                problems.append(f"select.{key}: {what} (train.similarity is {train['similarity']})")
        if "querybank" in values.get("retrieval", {}).get("protocols", ()):
            if train["similarity"] != "cosine":
                what = f"(train.similarity is {train['similarity']})"
                problems.append(f"retrieval.protocols: querybank needs the cosine {what}")
            elif members > 1 and not values["select"]["renormalise"] and not joined:
                problems.append("retrieval.protocols: querybank with select.members > 1 needs select.renormalise: true")
    if "train" in values and "corpus" in values:
        size = values["train"]["beside_batch"]
        if size and not values["corpus"]["beside_files"]:
            problems.append(f"train.beside_batch is {size}: corpus.beside_files names no captions without pictures")
    if "resize" in values and "features" in values and values["features"]["source"] == "extract":
        side, crop = values["resize"]["side"], values["features"]["crop"]
        if crop is not None and crop > side:
            problems.append(f"features.crop = {crop}: the resized pictures' smaller side is {side} (resize.side)")
    return problems


def encoders(values: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the encoders beside the chosen snapshots, and the one from which training starts."""
    beside = values.get("select", {}).get("beside", ())
    return [*(("select.beside", f"{BESIDE}/{name}") for name in beside), *start(values)]
