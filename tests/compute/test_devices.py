"""What torch is told about repeating itself, and what several threads share."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import first_party
import pytest
import torch
from torch import nn

from sightword import machine
from sightword.compute import devices

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


def test_threads_that_compute_are_started_behind_that_call_only(repository):
    """Each module of the library that starts threads and imports torch imports the one with the call."""
    starting = []
    for path in sorted((repository / "sightword").rglob("*.py")):
        text, name = path.read_text(), str(path.relative_to(repository))
        if "import torch\n" in text and re.search(r"ThreadPoolExecutor\(|threading\.Thread\(|\bpool\(", text):
            starting.append(name)
            assert "sightword.compute.devices" in [
                *first_party.imports(repository, name),
                name[:-3].replace("/", "."),
            ], name
    assert {
        "sightword/features/extractor.py",
        "sightword/compute/threads.py",
        "sightword/evaluation/retrieval/index.py",
    } <= {*starting}


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


def test_shared_settings_last_from_the_first_thread_to_the_last():
    value = ["before"]

    @devices.shared
    def within():
        value[0] = "within"
        yield
        value[0] = "before"

    with within():
        with within():
            assert value == ["within"]
        assert value == ["within"]
    assert value == ["before"]
    with pytest.raises(ZeroDivisionError), within():
        assert value == ["within"]
        1 / 0  # noqa: B018
    assert value == ["before"]
