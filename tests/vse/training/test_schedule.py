"""The learning rate of each batch."""

import math

import pytest

from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import cosine_rate, cyclic_rate, learning_rate, range_rate


def test_it_starts_low_peaks_in_the_middle_and_ends_low_in_every_cycle():
    rates = [cyclic_rate(step, 100, 1e-6, 1e-3) for step in range(301)]
    for start in (0, 100, 200, 300):
        assert rates[start] == pytest.approx(1e-6)
    for middle in (50, 150, 250):
        assert rates[middle] == pytest.approx(1e-3)
    assert rates[:51] == sorted(rates[:51])
    assert rates[50:101] == sorted(rates[50:101], reverse=True)
    assert rates[25] == pytest.approx((1e-3 + 1e-6) / 2)


def test_steps_are_a_tenth_after_so_many_epochs():
    settings = TrainSettings(schedule="step", rate_max=2e-4, step_factor=0.1, epochs=32)
    rates = [learning_rate(settings, step, 7) for step in range(32 * 7)]
    assert set(rates[: 15 * 7]) == {2e-4}
    assert rates[15 * 7 : 30 * 7] == pytest.approx([2e-5] * 15 * 7)
    assert rates[30 * 7 :] == pytest.approx([2e-6] * 2 * 7)
    constant = settings.model_copy(update={"step_factor": 1.0})
    assert {learning_rate(constant, step, 7) for step in range(32 * 7)} == {2e-4}


def test_cycles_are_counted_in_batches_over_the_whole_training():
    settings = TrainSettings(cycle=2, rate_min=1e-6, rate_max=1e-3)
    assert [learning_rate(settings, step, 5) for step in range(25)] == [
        cyclic_rate(step, 10, 1e-6, 1e-3) for step in range(25)
    ]


def test_a_cosine_rises_in_proportion_and_falls_to_the_end():
    settings = TrainSettings(schedule="cosine", rate_min=1e-5, rate_max=1e-3, epochs=4)
    rates = [learning_rate(settings, step, 25) for step in range(100)]
    assert rates[:10] == pytest.approx([1e-3 * (step + 1) / 10 for step in range(10)])
    assert rates[10:] == pytest.approx([1e-5 + 0.99e-3 * 0.5 * (1 + math.cos(math.pi * s / 90)) for s in range(90)])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert cosine_rate(0, 10, 0.0, 1e-5, 1e-3) == 1e-3


def test_a_range_test_rises_from_the_lowest_to_the_highest_rate_by_equal_factors():
    settings = TrainSettings(schedule="range", rate_min=1e-6, rate_max=1e-1, epochs=3, cycle=3)
    rates = [learning_rate(settings, step, 17) for step in range(3 * 17)]
    assert (rates[0], rates[-1]) == pytest.approx((1e-6, 1e-1))
    assert [math.log10(rate) for rate in rates] == pytest.approx([-6 + 5 * step / 50 for step in range(51)])
    assert range_rate(0, 1, 1e-6, 1e-1) == 1e-6


def test_the_lower_rate_does_not_matter_where_it_is_not_used():
    assert TrainSettings(schedule="step", rate_min=1e-6, rate_max=1e-7).rate_max == 1e-7
    with pytest.raises(ValueError, match="is above rate_max"):
        TrainSettings(rate_min=1e-6, rate_max=1e-7)
