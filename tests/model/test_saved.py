"""The files of weights."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
from collections.abc import Iterator

import pytest
import safetensors.torch
import torch

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


def test_others_may_read_the_file_as_far_as_the_umask_lets_them(tmp_path):
    before = os.umask(0o027)
    try:
        write_tensors(tmp_path / "w.safetensors", {"a": torch.ones(2)})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "w.safetensors").stat().st_mode) == 0o640
    assert torch.equal(safetensors.torch.load_file(tmp_path / "w.safetensors")["a"], torch.ones(2))
