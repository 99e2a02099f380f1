"""What experiments share is run once, before them: against a plain account of who computes what."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as some
from swept_project import STAGES

from pipeline.experiments import jobs, plan
from pipeline.experiments.baseline import Baseline
from pipeline.experiments.grid import Grid
from pipeline.lineage import documents

CHAIN = {"corpus": "corpus", "features": "corpus features", "captions": "corpus captions",
         "train": "corpus features captions train", "report": "corpus features captions train report"}  # fmt: skip
"""The sections that each stage of the small project depends on, as a person reads them from it."""


@pytest.fixture(scope="module")
def base(repository):
    return (repository / "params.yaml").read_text()


@pytest.fixture(scope="module")
def ground(repository):
    found = Baseline(repository, repository, "0" * 40)
    found.__dict__["described"] = documents.parse(STAGES, "dvc.yaml")["stages"]
    return found


def runs_of(base, **block):
    return plan.expand(Grid.model_validate({"name": "g", "blocks": [block]}), base, "g.yaml")


def keys(run):
    return {stage: repr([run.params[section] for section in chain.split()]) for stage, chain in CHAIN.items()}


@given(
    some.sampled_from([["one"], ["ten", "one"]]),
    some.sampled_from([["keep"], ["keep", "lower"]]),
    some.sampled_from([[0.1], [0.1, 0.2, 0.3]]),
    some.sampled_from([["a"], ["a", "b"]]),
)
def test_nothing_shared_is_left_to_two_experiments(base, ground, crops, cases, margins, titles):
    runs = runs_of(
        base, **{"features.crops": crops, "captions.case": cases, "train.margin": margins, "report.title": titles}
    )
    order = jobs.plan(runs, ground, sweep="g", side_by_side=True)
    shared = [job for job in order if job.stages]
    assert [job.name for job in order if not job.stages] == [run.name for run in runs]
    assert order[: len(shared)] == shared
    assert not {job.name for job in shared} & {run.name for run in runs}
    counts = Counter((stage, key) for run in runs for stage, key in keys(run).items())
    wanted = {one for one, count in counts.items() if count > 1}
    computed = [(stage, keys(job.run)[stage]) for job in shared for stage in job.stages]
    assert sorted(computed) == sorted(wanted)  # each once


def test_a_job_waits_for_all_that_others_make_for_it(base, ground):
    runs = runs_of(base, **{"features.crops": ["ten", "one"], "train.margin": [0.1, 0.2]})
    one, two, *experiments = jobs.plan(runs, ground, sweep="g", side_by_side=True)
    assert (one.stages, two.stages) == (("corpus", "features", "captions"), ("features",))
    assert two.needs & one.makes  # the corpus
    assert not one.needs
    for job in experiments:
        own = one if job.run.params["features"]["crops"] == "ten" else two
        other = two if own is one else one
        assert job.needs & own.makes
        assert not any("features" in need.split()[0] for need in job.needs & other.makes)


def test_one_after_the_other_shares_by_itself(base, ground):
    runs = runs_of(base, **{"train.margin": [0.1, 0.2]})
    assert [job.stages for job in jobs.plan(runs, ground, sweep="g", side_by_side=False)] == [(), ()]
    assert [job.stages for job in jobs.plan(runs[:1], ground, sweep="g", side_by_side=True)] == [()]


def test_paths_with_parameters_in_them_are_followed(base, ground):
    """The recipe moves the corpus: what reads it depends on where it is."""
    runs = runs_of(base, **{"corpus.path": ["data/raw/sample", "data/raw/own"], "train.margin": [0.1, 0.2]})
    shared = [job for job in jobs.plan(runs, ground, sweep="g", side_by_side=True) if job.stages]
    assert [job.stages for job in shared] == [("corpus", "features", "captions")] * 2
