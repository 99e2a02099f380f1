"""Two processes with a GPU each, over NCCL."""

from __future__ import annotations

import pytest
import rank_gradients
import safetensors.torch
import torch
from several_ranks import finish, start

from sightword.training.processes import ALONE

pytestmark = pytest.mark.gpu


def test_two_ranks_have_the_gradients_of_one_process(repository, gpu, tmp_path):
    if torch.cuda.device_count() < 2:
        pytest.skip("torch sees one GPU only")
    finish(start(repository, 2, "rank_gradients", str(tmp_path), SIGHTWORD_DEVICE="cuda"))
    found = safetensors.torch.load_file(tmp_path / "2.safetensors")
    for name, value in rank_gradients.gradients(ALONE, gpu):
        assert torch.allclose(found[name], value, rtol=1e-6, atol=1e-12), name
