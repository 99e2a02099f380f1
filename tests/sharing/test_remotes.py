"""Two people and a remote: what one computed, the other has without computing."""

from __future__ import annotations

from pathlib import Path

import people
import pytest

from pipeline.pipelines import Pipeline

NAMES = list(Pipeline(Path(__file__).parents[2]).stages)
RESTORED = ["corpus", "resize", "features", "captions"]
"""The stages all of whose outputs are DVC's: metrics, which are in git, a pushed run-cache does not bring."""
IDLE = "Data and pipelines are up to date."


@pytest.mark.full
@pytest.mark.system
@pytest.mark.parametrize("remote", ["folder", "ssh", "s3"])
def test_what_one_pushed_another_has_without_computing(person_a, tmp_path, remote) -> None:
    a = person_a
    assert "files pushed" in a.run("dvc", "push", "-r", remote, "--run-cache").stdout
    assert "Everything is up to date" in a.run("dvc", "push", "-r", remote).stdout

    b = people.Clone(a.origin, tmp_path / "b", a)
    b.run("dvc", "remote", "default", "--local", remote)
    b.run("dvc", "pull", "-q", "dvc.yaml")
    assert IDLE in b.run("dvc", "repro").stdout
    assert people.results(b) == a.first
    assert b.locked() == a.locked()

    # the experiment: its parameters and metrics come by git, its data and plots from the remote
    a.run("dvc", "exp", "push", "-r", remote, "origin", "dev")
    assert "dev" in b.run("dvc", "exp", "list", "origin").stdout
    b.run("dvc", "exp", "pull", "origin", "dev")
    b.run("dvc", "exp", "apply", "dev")
    assert people.results(b) == a.dev
    assert a.dev != a.first
    assert IDLE in b.run("dvc", "repro").stdout

    # the run-cache: the lock file is lost, and what was run is found all the same
    c = people.Clone(a.origin, tmp_path / "c", a)
    c.run("dvc", "remote", "default", "--local", remote)
    (c.folder / "dvc.lock").unlink()
    again = c.run("dvc", "repro", "--pull", "captions", "features")
    assert people.ran(again) == []
    assert sorted(people.restored(again)) == sorted(RESTORED)
    locked = a.locked()
    assert c.locked() == {name: locked[name] for name in RESTORED}
