from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from sightword.evaluation.retrieval.ranks import rank
from sightword.model import penalty
from sightword.model.penalty import STEP, compiled, errors

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _forget():
    penalty._compiled.cache_clear()
    yield
    penalty._compiled.cache_clear()


def found(captions, images, kernel=None):
    out = torch.full((len(captions), len(images)), torch.nan, dtype=captions.dtype)
    errors(captions, images, out, kernel)
    return out


@pytest.mark.slow
def test_the_compiled_kernel_agrees_with_plain_operations_on_any_shape(caplog):
    with caplog.at_level(logging.DEBUG, logger=penalty.__name__):
        fused = compiled(1e12, CPU)
    if fused is None:
        pytest.skip(f"no kernel can be compiled here: {caplog.text}")
    assert "by a compiled kernel" in caplog.text
    random = np.random.default_rng(0)
    with torch.inference_mode(), torch._dynamo.config.patch(error_on_recompile=True):  # one kernel does for all
        for n, m, width in ((1, 1, 1), (513, 600, 17), (100, 1030, 64), (1024, 7, 100)):
            captions, images = (torch.from_numpy(random.standard_normal((rows, width))) for rows in (n, m))
            expected = torch.stack([torch.relu(row - images).square().sum(1) for row in captions])
            bound = (width + 8) * 2.0**-53
            for kernel in (fused, None):
                assert ((found(captions, images, kernel) - expected).abs() <= bound * expected).all()


@pytest.mark.parametrize("error", [RuntimeError("no compiler"), FileNotFoundError("g++")])
def test_without_a_compiler_plain_operations_give_the_same_ranks(monkeypatch, caplog, error):
    def no_compiler(*_, **__):
        raise error

    random = np.random.default_rng(1)
    images, captions = random.random((20, 6)), random.random((40, 6))
    expected = rank(captions, images, np.tile(np.arange(20), 2), "order")
    monkeypatch.setattr(penalty, "_WORTH_COMPILING", 0)
    monkeypatch.setattr(torch, "compile", lambda *_, **__: no_compiler)
    with caplog.at_level(logging.DEBUG, logger=penalty.__name__):
        plain = rank(captions, images, np.tile(np.arange(20), 2), "order")
    assert f"no kernel could be compiled ({error})" in caplog.text
    np.testing.assert_array_equal(plain.caption_to_image, expected.caption_to_image)
    np.testing.assert_array_equal(plain.image_to_caption, expected.image_to_caption)


def test_a_torch_that_knows_fewer_options_compiles_without_them(monkeypatch):
    asked = []

    def choosy(function, *, dynamic, options):
        asked.append(sorted(options))
        if len(options) > 1:
            raise RuntimeError("Unexpected optimization option")
        return function

    monkeypatch.setattr(torch, "compile", choosy)
    kernel = compiled(1e12, CPU)
    assert asked == [["compile_threads", "cpp.enable_floating_point_contract_flag"], ["compile_threads"]]
    captions, images = torch.rand(5, 40), torch.rand(7, 40)
    torch.testing.assert_close(found(captions, images, kernel), found(captions, images))


def test_little_work_compiles_nothing(monkeypatch, caplog):
    monkeypatch.setattr(torch, "compile", None)
    with caplog.at_level(logging.DEBUG, logger=penalty.__name__):
        assert compiled(1e6, CPU) is None
    assert "too little work" in caplog.text


def test_a_pairs_error_does_not_depend_on_its_tile(monkeypatch):
    random = np.random.default_rng(3)
    captions, images = (torch.from_numpy(random.standard_normal((70, 2 * STEP + 5))) for _ in range(2))
    whole = found(captions, images)
    torch.testing.assert_close(whole, torch.relu(captions[:, None] - images).square().sum(-1))
    monkeypatch.setattr(penalty, "_PLAIN_TILE", (13, 5))
    assert torch.equal(found(captions, images), whole)
