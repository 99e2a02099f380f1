"""Works side by side, or one after the other: the same bits, one thread more at most; the map over processes."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from sightword.compute import threads
from sightword.compute.processes import ordered_map
from sightword.compute.threads import side_by_side, spread
from sightword.errors import SetupError
from sightword.model.packing import Packing
from sightword.model.pooling import Attention
from sightword.model.recurrent import Recurrent


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def step(hidden: int, cell: str, precision: str) -> list[torch.Tensor]:
    """All that a step through the recurrent layer and the attention computes, the loss's gradients included."""
    torch.manual_seed(0)
    recurrent, attention = Recurrent(20, hidden, cell), Attention(2 * hidden, 8, mask_padding=False)
    lengths = torch.randint(1, 20, (24,))
    packing = Packing.of(lengths)
    inputs = torch.randn(int(lengths.sum()), 20, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        states = recurrent(inputs, packing)
        pooled = attention.packed(states, packing)
    pooled.square().sum().backward()
    weights = [*recurrent.parameters(), *attention.parameters()]
    return [states.detach(), pooled.detach(), inputs.grad, *(weight.grad for weight in weights)]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("count", [2, 3])
def test_side_by_side_and_one_after_the_other_give_the_same_bits(monkeypatch, cell, precision, count):
    torch.set_num_threads(count)
    found = []
    for least in (0, 1 << 60):
        monkeypatch.setattr(threads, "WORTH_A_THREAD", least)
        found.append(step(96, cell, precision))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def where(_: int = 0) -> tuple[int, int, bool]:
    time.sleep(0.005)
    return threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()


def test_several_threads_and_works_within_works_do_not_wait_for_each_other():
    def nested() -> list[int]:
        torch.set_num_threads(2)
        return [number for number, _, _ in side_by_side([where, where], size=1 << 40)]

    before = threading.active_count()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: side_by_side([nested, nested], size=1 << 40), range(20)))
    assert len(found) == 20
    assert threading.active_count() <= before + 1


def test_what_either_work_raises_is_raised_once_both_have_ended():
    ended = []

    def slow() -> None:
        time.sleep(0.05)
        ended.append(True)

    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1 / 0, slow], size=1 << 40)
    assert ended == [True]
    assert side_by_side([lambda: 1, lambda: 2], size=1 << 40) == [1, 2]
    assert torch.get_num_threads() == 2


def test_a_forked_process_has_a_second_thread_of_its_own():
    code = """if True:
        import os, threading, torch
        from sightword.compute.threads import side_by_side
        torch.set_num_threads(2)
        def both():
            return side_by_side([threading.get_ident, threading.get_ident], size=1 << 40)
        assert len(set(both())) == 2
        child = os.fork()
        if not child:
            torch.set_num_threads(2)  # a forked child begins with one
            ok = len(set(both())) == 2
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(set(both())) == 2
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60, env=environment)


@pytest.mark.parametrize("count", [1, 3])
def test_spread_does_each_item_once_with_one_thread_each(count):
    torch.set_num_threads(count)
    found: list[tuple[int, int]] = []
    spread(lambda item: found.append((item, torch.get_num_threads())), range(7))
    spread(lambda item: found.append((item, torch.get_num_threads())), [7])
    spread(lambda _: 1 / 0, [])
    assert sorted(found) == [(item, 1) for item in range(8)]
    assert torch.get_num_threads() == count


def test_a_thread_that_starts_meanwhile_has_the_threads_of_the_process():
    """Such as a thread of a server, of which each encodes."""
    found: list[int] = []
    turn = threading.Lock()  # a thread that starts in the moment in which a pool does may have one

    def other():
        found.append(torch.get_num_threads())
        spread(lambda _: None, [1, 2])
        found.append(torch.get_num_threads())

    def work(_):
        with turn:
            later = threading.Thread(target=other)
            later.start()
            later.join()

    spread(work, [1, 2])
    other()
    assert found == [2] * 6


def test_without_workers_the_result_is_that_of_map() -> None:
    assert list(ordered_map(operator.neg, range(10), workers=0)) == [-n for n in range(10)]


@pytest.mark.slow
def test_processes_start_after_the_time_alone() -> None:
    first, *others = ordered_map(eval, 3 * ["__import__('os').getpid()"], workers=1, alone=1e-9)
    assert first == os.getpid()
    assert os.getpid() not in others


@pytest.mark.slow
def test_order_is_kept_and_errors_and_dead_workers_are_reported(tmp_path) -> None:
    assert list(ordered_map(operator.neg, range(100), workers=2, chunk=3)) == [-n for n in range(100)]
    with pytest.raises(ZeroDivisionError):
        list(ordered_map((1).__truediv__, [1, 2, 0], workers=1))
    with pytest.raises(SetupError, match="SIGHTWORD_WORKERS"):
        list(ordered_map(os._exit, [3], workers=1))
