"""A process that trains cones, killed at any moment and started again, ends with the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time

import fork_server


def start(folder, repository):
    path = f"{repository}{os.pathsep}{repository / 'tests/support'}"
    environment = {**os.environ, "PYTHONPATH": path}
    command = [fork_server.python(), "-m", "killed_embedding", str(folder)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def finish(process):
    _, said = process.communicate(timeout=100)
    assert process.returncode == 0, said
    return said


def test_killed_and_killed_again_it_ends_with_the_same_bytes(repository, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    assert "goes on" not in finish(start(whole, repository))
    draw = random.Random(1)
    before = b""
    for _ in range(2):
        process = start(broken, repository)
        while not (broken / "checkpoint.json").is_file() or (broken / "checkpoint.json").read_bytes() == before:
            assert process.poll() is None
            time.sleep(0.005)
        time.sleep(draw.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        before = (broken / "checkpoint.json").read_bytes()
    said = finish(start(broken, repository))
    assert "goes on after batch" in said
    assert "epochs of Poincare" not in said
    assert (broken / "vectors.npy").read_bytes() == (whole / "vectors.npy").read_bytes()
