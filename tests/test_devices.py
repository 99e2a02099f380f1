"""What torch is told about repeating itself."""

import pytest
import torch

from pipeline import devices, machine


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
