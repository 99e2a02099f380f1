"""What torch is told, what several threads share, and works in several threads: the same bits."""

from __future__ import annotations

import operator
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from sightword import machine
from sightword.compute import devices, threads
from sightword.compute.processes import ordered_map
from sightword.compute.threads import side_by_side, spread
from sightword.errors import SetupError
from sightword.model.packing import Packing
from sightword.model.pooling import Attention
from sightword.model.recurrent import Recurrent

ENTRANCES = ["sightword.features.compute", "sightword.encoder.sentence_encoder", "sightword.evaluation.retrieval.index"]
"""Modules through which a user's program comes to what computes; the others build on them."""


def test_mkl_vector_functions_any_entry_point_first_call_in_one_thread():
    """A race that shows once in some thousand processes: what prevents it is looked for, in a process per entrance."""
    code = """if True:
        import importlib, os, sys, threading
        import torch
        calls, tanh = [], torch.tanh
        def recorded(values):
            calls.append((values.dtype, values.device.type, threading.active_count()))
            return tanh(values)
        torch.tanh = recorded
        for name in sys.argv[1:]:
            child = os.fork()
            if not child:
                importlib.import_module(name)
                os._exit(0 if calls and calls[0] == (torch.float32, "cpu", 1) else 1)
            if os.waitpid(child, 0)[1]:
                print(name)
    """
    done = subprocess.run([sys.executable, "-c", code, *ENTRANCES], check=True, capture_output=True, text=True)
    assert done.stdout == "", "these compute, and import no sightword.compute.devices"


@pytest.mark.slow
def test_forked_child_encodes_as_its_parent_did():
    """Without end before: OpenMP in the child waited for threads that only the parent has."""
    code = """if True:
        import os, signal
        import torch
        from sightword import SentenceEncoder
        encoder = SentenceEncoder.from_pretrained("flickr8k")
        sentences = [f"A dog number {i} runs in the snow ." for i in range(64)]
        before = encoder.encode(sentences)
        assert torch.get_num_threads() == 2
        child = os.fork()
        if not child:
            signal.alarm(60)  # ends a child that waits
            same = (encoder.encode(sentences) == before).all() and torch.get_num_threads() == 1
            os._exit(0 if same else 1)
        status = os.waitpid(child, 0)[1]
        assert (encoder.encode(sentences) == before).all() and torch.get_num_threads() == 2
        print(os.waitstatus_to_exitcode(status))
    """
    environment = {**os.environ, "SIGHTWORD_THREADS": "2", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "0\n", "a negative number is the signal that ended the child"


@pytest.mark.parametrize("deterministic", [True, False])
def test_determinism_is_asked_for_or_not(monkeypatch, deterministic):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark, torch.get_num_threads()
    try:
        devices.use(machine.current(), deterministic=deterministic)
        assert torch.are_deterministic_algorithms_enabled() is deterministic
        assert torch.backends.cudnn.benchmark is not deterministic
        assert not torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]
        torch.set_num_threads(before[2])


def _drawn() -> list[torch.Tensor]:
    weights = [torch.empty(40, 3), torch.empty(7), torch.empty(5, 5, dtype=torch.float64)]
    nn.init.kaiming_uniform_(weights[0])
    nn.init.normal_(weights[1])
    nn.init.trunc_normal_(weights[2])
    return [*weights, torch.rand(3), torch.randn(20), torch.randperm(9), torch.nn.Linear(3, 4).weight.detach()]


def test_own_random_other_threads_drawing_gives_numbers_of_the_seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        expected = _drawn()
        torch.manual_seed(9)
        state, stop = torch.get_rng_state(), threading.Event()

        def own(_: int) -> list[torch.Tensor]:
            with devices.OwnRandom(3):
                return _drawn()

        with ThreadPoolExecutor(4) as pool:
            several = list(pool.map(own, range(8)))
        assert torch.equal(torch.get_rng_state(), state)

        def draw() -> None:
            while not stop.is_set():
                torch.rand(5)

        with ThreadPoolExecutor(1) as pool:
            drawing = pool.submit(draw)
            several.append(own(0))
            stop.set()
            drawing.result()
    for found in several:
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


FAULTS = """
import resource, torch
from sightword.compute.devices import keep_memory
keep_memory()
for turn in range(60):
    if turn == 50:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(64 << 18)  # 64 MB
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_large_blocks_that_are_freed_are_soon_used_again_without_new_pages():
    """In a process of its own: what other tests allocated may stand in the way."""
    said = subprocess.run([sys.executable, "-c", FAULTS], check=True, capture_output=True, text=True).stdout
    assert int(said) < 20_000  # of 163,840 pages


def test_steps_give_the_numbers_of_torch_also_from_a_saved_state():
    def trained(kind):
        torch.manual_seed(3)
        weights = torch.nn.Parameter(torch.randn(5, 4))
        first = kind([weights], lr=0.1, weight_decay=0.1, fused=True)
        for turn in range(4):
            if turn == 2:
                second = kind([{"params": [weights]}], lr=0.2, weight_decay=0.1, fused=True)
                second.load_state_dict(first.state_dict())
                first = second
            first.zero_grad()
            (weights**3).sum().backward()
            first.step()
        return weights.detach()

    assert torch.equal(trained(devices.Adam), trained(torch.optim.Adam))


def test_training_features_and_semantic_scores_leave_torchs_compiler_scikit_learn_and_matplotlib_alone(tmp_path):
    code = """if True:
        import os, sys, torch
        from PIL import Image
        from sightword import FeaturesSettings, ResizeSettings, extract
        from sightword.compute.devices import Adam, OwnRandom
        from sightword.evaluation.semantics import evaluation, tables
        from sightword.evaluation.semantics.relatedness import TfIdf
        from sightword.features import vision
        from sightword.features.networks import skeleton
        from sightword.features.networks import find_backbone
        with OwnRandom(0):
            network = vision.models.get_model("shufflenet_v2_x0_5", weights=None).eval()
        adam = Adam(network.parameters(), fused=True)
        network(torch.zeros(1, 3, 64, 64)).sum().backward()
        adam.step()
        adam.zero_grad()
        skeleton(find_backbone("efficientnet_lite2"))
        TfIdf(["one dog"]).prepare(["dogs"])
        Image.new("RGB", (64, 64)).save(sys.argv[1])
        settings = FeaturesSettings(backbone="shufflenet_v2_x0_5", weights="random", crop=64)
        extract([sys.argv[1]], settings, ResizeSettings(side=64))
        assert not {"torch._dynamo", "sympy", "sklearn", "matplotlib"} & sys.modules.keys()
        os.environ["TORCHDYNAMO_DISABLE"] = "1"  # the operator is called, and no kernel of it compiled
        from torchvision.ops import roi_align  # what was put off still works
        assert roi_align(torch.ones(1, 1, 4, 4), [torch.tensor([[0.0, 0.0, 2.0, 2.0]])], 1).shape == (1, 1, 1, 1)
    """
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "one.png")], check=True)


@pytest.fixture
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


@pytest.mark.parametrize(("cell", "precision", "count"), [("gru", "fp32", 2), ("lstm", "bf16", 3)])
@pytest.mark.usefixtures("two_threads")
def test_side_by_side_and_one_after_the_other_give_the_same_bits(monkeypatch, cell, precision, count):
    torch.set_num_threads(count)
    found = []
    for least in (0, 1 << 60):
        monkeypatch.setattr(threads, "WORTH_A_THREAD", least)
        found.append(step(96, cell, precision))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.usefixtures("two_threads")
def test_what_either_work_raises_is_raised_once_both_have_ended():
    ended = []

    def slow() -> None:
        time.sleep(0.05)
        ended.append(True)

    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1 / 0, slow], size=1 << 40)
    assert ended == [True]
    with pytest.raises(ZeroDivisionError):
        side_by_side([slow, lambda: 1 / 0], size=1 << 40)
    assert side_by_side([lambda: 1, lambda: 2], size=1 << 40) == [1, 2]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
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
@pytest.mark.usefixtures("two_threads")
def test_spread_does_each_item_once_with_one_thread_each(count):
    torch.set_num_threads(count)
    found: list[tuple[int, int]] = []
    spread(lambda item: found.append((item, torch.get_num_threads())), range(7))
    spread(lambda item: found.append((item, torch.get_num_threads())), [7])
    spread(lambda _: 1 / 0, [])
    assert sorted(found) == [(item, 1) for item in range(8)]
    assert torch.get_num_threads() == count


@pytest.mark.usefixtures("two_threads")
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
