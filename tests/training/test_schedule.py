"""The cyclic learning rate."""

import pytest

from pipeline.training.schedule import cyclic_rate


def test_it_starts_low_peaks_in_the_middle_and_ends_low_in_every_cycle():
    rates = [cyclic_rate(step, 100, 1e-6, 1e-3) for step in range(301)]
    for start in (0, 100, 200, 300):
        assert rates[start] == pytest.approx(1e-6)
    for middle in (50, 150, 250):
        assert rates[middle] == pytest.approx(1e-3)
    assert rates[:51] == sorted(rates[:51])
    assert rates[50:101] == sorted(rates[50:101], reverse=True)
    assert rates[25] == pytest.approx((1e-3 + 1e-6) / 2)
