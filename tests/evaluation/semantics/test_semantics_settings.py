from __future__ import annotations

import pytest
from pydantic import ValidationError

from sightword.evaluation.semantics.classification_data import FILES
from sightword.evaluation.semantics.settings import CLASSIFICATION, TASKS, SemanticsSettings
from sightword.vse.selection.settings import EpochsSettings


def test_the_classification_tasks_are_accepted_but_not_in_the_defaults():
    assert set(CLASSIFICATION) == set(FILES)
    assert SemanticsSettings().tasks == list(TASKS)
    assert not set(TASKS) & set(CLASSIFICATION)
    named = [*TASKS, *CLASSIFICATION]
    assert SemanticsSettings(tasks=named).tasks == named


def test_the_defaults_are_sentevals():
    settings = SemanticsSettings()
    assert (settings.kfold, settings.seed) == (5, 1111)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tasks": ["MR", "SST5"]}, "no such task: 'SST5' .accepted: STSBenchmark, STS12 and other STS.*MR, CR"),
        ({"tasks": ["MR", "MR"]}, "a task is named twice"),
        ({"kfold": 1}, "kfold"),
    ],
)
def test_wrong_values_are_refused(wrong, message):
    with pytest.raises(ValidationError, match=message):
        SemanticsSettings(**wrong)


def test_epochs_are_scored_by_the_cosine_only():
    with pytest.raises(ValidationError, match="no such task: 'MR'"):
        EpochsSettings(tasks=["MR"])
