"""Weights that cannot be written."""

from __future__ import annotations

import contextlib
import errno
import resource
from collections.abc import Iterator

import pytest
import safetensors.torch
import torch
from safetensors import SafetensorError

from sightword.errors import EncoderError
from sightword.model.saved import write_tensors


@contextlib.contextmanager
def file_size(limit: int) -> Iterator[None]:
    """Let this process write so many bytes of a file, which stands for a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_an_error_of_the_system_that_names_the_file(tmp_path):
    with file_size(1000), pytest.raises(OSError, match="File too large") as told:
        write_tensors(tmp_path / "w.safetensors", {"a": torch.ones(1000)})
    assert (told.value.errno, told.value.filename) == (errno.EFBIG, str(tmp_path / "w.safetensors"))
    assert list(tmp_path.iterdir()) == []


def test_what_safetensors_says_otherwise_is_told(tmp_path, monkeypatch):
    def odd(*_):
        raise SafetensorError("no such thing")

    monkeypatch.setattr(safetensors.torch, "save_file", odd)
    with pytest.raises(EncoderError, match=r"w\.safetensors: cannot be written \(no such thing\)"):
        write_tensors(tmp_path / "w.safetensors", {})
