"""What torch is told about repeating itself, what threads share, kept memory, and the optimisers."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from sightword import machine
from sightword.compute import devices, optimisers
from sightword.compute.devices import keep_memory

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_large_blocks_that_are_freed_are_soon_used_again_without_new_pages():
    keep_memory()
    for _ in range(50):
        torch.ones(64 << 18)  # 64 MB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(64 << 18)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20_000  # of 163,840 pages


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

    assert torch.equal(trained(optimisers.Adam), trained(torch.optim.Adam))


def test_training_features_and_semantic_scores_leave_torchs_compiler_scikit_learn_and_matplotlib_alone(tmp_path):
    code = """if True:
        import os, sys, torch
        from PIL import Image
        from sightword import FeaturesSettings, ResizeSettings, extract
        from sightword.compute.devices import OwnRandom
        from sightword.compute.optimisers import Adam
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
