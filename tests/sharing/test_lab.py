"""The tutorial of a shared lab, followed by two users of the system; then each tries to break what is the other's."""

from __future__ import annotations

import hashlib
import re
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import people
import pytest
from blocks import blocks
from checkout import Checkout
from small_run import make_small

from pipeline.pipelines import Pipeline

NAMES = list(Pipeline(Path(__file__).parents[2]).stages)
PEOPLE = ("root", "ana", "ben")


@dataclass
class Followed:
    """What came of the tutorial."""

    lab: people.Lab
    output: list[tuple[str, str]]
    """Of each block that was run: who ran it, and what it printed."""
    shown: list[tuple[int, str]]
    """Output that the page shows, and the number of the block it belongs to."""

    @property
    def ana(self) -> people.Account:
        return self.lab.users[0]

    @property
    def ben(self) -> people.Account:
        return self.lab.users[1]

    def files(self, *places: str, owner: str) -> dict[str, tuple[int, str]]:
        """Mode and hash of all that one user has in the shared places."""
        return {
            str(path): (stat.S_IMODE(path.stat().st_mode), hashlib.sha256(path.read_bytes()).hexdigest())
            for place in places
            for path in sorted((self.lab.folder / place).rglob("*"))
            if path.is_file() and path.owner() == owner
        }

    def run(self, who: people.Account, *command: str, ok: bool = True, where: Path | None = None):
        return who.run(
            *command, ok=ok, where=where or who.home / "sightword", SIGHTWORD_STORE=str(self.lab.folder / "store"),
            DVC_SITE_CACHE_DIR=str(self.lab.folder / "site"), PYTHONPATH=str(who.home / "sightword"),
        )  # fmt: skip


@pytest.fixture(scope="module")
def followed(repository: Path, tmp_path_factory) -> Iterator[Followed]:
    """The blocks of the page, in order, each by whom it names, with other names for users and folders."""
    if reason := people.lacking():
        pytest.skip(reason)
    with people.lab([0o022, 0o077], join=False) as lab:
        ana, ben = lab.users
        names = {"/srv/lab": str(lab.folder), "sightlab": lab.group, "ana": ana.name, "ben": ben.name}

        def here(text: str) -> str:
            return re.sub(r"/srv/lab|\b(?:sightlab|ana|ben)\b", lambda found: names[found.group()], text)

        # Ana's clone, with the sample made small
        first = Checkout(repository, tmp_path_factory.mktemp("lab") / "clone", tmp_path_factory.mktemp("own"))
        make_small(first)
        first.run("git", "commit", "-qam", "small")
        first.run("git", "branch", "-M", "main")
        for account, name in ((ana, "Ana"), (ben, "Ben")):
            account.run("git", "config", "--global", "user.name", name)
            account.run("git", "config", "--global", "user.email", f"{name.lower()}@example.org")
        subprocess.run(["cp", "-r", str(first.folder), str(ana.home / "sightword")], check=True)
        subprocess.run(["chown", "-R", f"{ana.name}:{ana.name}", str(ana.home / "sightword")], check=True)

        result = Followed(lab, [], [])
        (lab.folder / "root").mkdir()
        (lab.folder / "site").mkdir()
        (lab.folder / "site").chmod(0o1777)
        for one in blocks(repository / "docs/lab.md"):
            who, text = one.who, one.text
            if one.language == "text":
                result.shown.append((len(result.output) - 1, here(text)))
            elif who:
                assert who in PEOPLE, who
                script = f"set -e\n. ~/.profile\nexport PYTHONPATH=~/sightword\n{here(text)}"
                where = {"ana": ana, "ben": ben}.get(who)
                settings = {"DVC_SITE_CACHE_DIR": str(lab.folder / "site")}
                if where is None:
                    done = first.run("sh", "-c", f"set -e\n{here(text)}", HOME=str(lab.folder / "root"), **settings)
                else:
                    done = where.run("sh", "-c", script, **settings)
                result.output.append((who, done.stdout + done.stderr))
        yield result


@pytest.mark.full
@pytest.mark.system
def test_the_tutorial_does_what_it_says(followed) -> None:
    assert len(followed.shown) >= 5
    for number, text in followed.shown:
        _, printed = followed.output[number]
        for line in filter(None, text.splitlines()):
            pattern = re.sub(r"\d+", r"\\d+", re.escape(line))
            assert re.search(f"^{pattern}$", printed, re.MULTILINE), f"{line!r} is not in:\n{printed}"


@pytest.mark.full
@pytest.mark.system
def test_each_computes_what_the_other_has_not(followed) -> None:
    outputs = [printed for _, printed in followed.output]
    ran = [re.findall(r"Running stage '(\w+)'", printed) for printed in outputs]
    ran = [stages for stages in ran if stages]
    assert ran == [NAMES, NAMES[NAMES.index("train") :], ["features"]]
    assert any("16 pictures: 16 computed\n" in printed for printed in outputs)
    assert any("16 pictures: 16 from store\n" in printed for printed in outputs)
    assert not any("damaged: " in printed for printed in outputs)


@pytest.mark.full
@pytest.mark.system
def test_what_is_shared_has_the_right_modes(followed) -> None:
    folder = followed.lab.folder
    for path in (folder / "store/features").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert path.group() == followed.lab.group
        if path.is_dir():
            assert mode & 0o7770 == 0o3770
        else:
            assert mode & 0o770 == (0o660 if path.name == "identity.json" else 0o440)
    for path in (folder / "cache/files").rglob("*"):
        assert path.group() == followed.lab.group
        assert path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o444
        assert not path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o3770  # none was made by DVC


@pytest.mark.full
@pytest.mark.system
def test_no_command_of_one_takes_what_is_the_others(followed) -> None:
    ana, ben, lab = followed.ana, followed.ben, followed.lab
    places = ("store/features", "cache/files", "remote/files")
    before = followed.files(*places, owner=ana.name)
    assert len(before) > 20
    segments = [Path(name) for name in before if name.endswith(".parquet") and "/features/" in name]

    said = followed.run(ben, "sightword", "store", "prune")
    assert f"{len(segments)} files of other users stay as they are" in said.stdout
    refused = followed.run(
        ben, "sightword", "store", "prune", "--remove", segments[0].parent.name, "--others", ok=False
    )
    assert refused.returncode == 1
    assert "removed 0 kinds" in refused.stdout
    followed.run(ben, "sightword", "store", "prune", "--unused", "0", "--others")

    # Another project of Ben's, in the same cache, which names nothing of it.
    other = ben.home / "other"
    other.mkdir()
    subprocess.run(["chown", f"{ben.name}:{ben.name}", str(other)], check=True)
    for command in (
        ("git", "init", "-q"), ("dvc", "init", "-q"), ("dvc", "cache", "dir", str(lab.folder / "cache")),
        ("dvc", "config", "cache.shared", "group"), ("dvc", "remote", "add", "-d", "lab", str(lab.folder / "remote")),
    ):  # fmt: skip
        followed.run(ben, *command, where=other)
    refused = followed.run(ben, "dvc", "gc", "--force", "--workspace", ok=False, where=other)
    assert refused.returncode != 0
    assert f"Operation not permitted: '{lab.folder}/cache/" in refused.stderr
    followed.run(ben, "dvc", "config", "--unset", "cache.dir", where=other)  # a cache of its own, and the lab's remote
    refused = followed.run(ben, "dvc", "gc", "--force", "--workspace", "--cloud", ok=False, where=other)
    assert refused.returncode != 0
    assert f"Operation not permitted: '{lab.folder}/remote/" in refused.stderr
    followed.run(ben, "dvc", "repro", "--force", "--single-item", "resize")
    followed.run(ben, "dvc", "push", "--run-cache")
    followed.run(ben, "dvc", "destroy", "--force", where=other)

    assert followed.files(*places, owner=ana.name) == before
    # Ben's own went, of which Ana's workspace has copies.
    followed.run(ana, "dvc", "commit", "--force", "dvc.yaml")
    assert "up to date" in followed.run(ana, "dvc", "status", "dvc.yaml").stdout


@pytest.mark.full
@pytest.mark.system
def test_what_was_damaged_or_deleted_by_hand_is_computed_again(followed) -> None:
    ana, ben = followed.ana, followed.ben
    store = followed.lab.folder / "store/features"
    followed.run(ana, "sightword", "store", "prune")  # a slow machine makes more than one
    [segment] = store.rglob("*.parquet")
    whole = segment.read_bytes()

    spoilt = bytearray(whole)
    spoilt[len(whole) // 2] ^= 255
    segment.write_bytes(spoilt)  # as root: its owner could do so after a chmod
    damaged = followed.run(ben, "dvc", "repro", "--force", "--single-item", "features")
    assert "16 computed" in damaged.stderr
    assert "its features cannot be used and are ignored" in damaged.stderr
    assert "16 pictures: 16 from store\n" in followed.run(
        ana, "dvc", "repro", "--force", "--single-item", "features"
    ).stderr  # fmt: skip
    assert segment.read_bytes() == spoilt
    assert followed.run(ben, "sightword", "store", "verify", ok=False).returncode == 1
    followed.run(ana, "sightword", "store", "prune")
    assert followed.run(ben, "sightword", "store", "verify").returncode == 0

    for path in store.rglob("*.parquet"):
        path.unlink()
    again = followed.run(ben, "dvc", "repro", "--force", "--single-item", "features")
    assert "16 pictures: 16 computed\n" in again.stderr
    assert "16 pictures: 16 from store\n" in followed.run(
        ana, "dvc", "repro", "--force", "--single-item", "features"
    ).stderr  # fmt: skip
    assert {path.owner() for path in store.rglob("*.parquet")} == {ben.name}
