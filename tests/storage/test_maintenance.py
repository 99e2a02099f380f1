"""Looking after a store: it says what is there, finds damage, and loses nothing that is sound."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kept_features import DIMENSION, as_bytes, damage, fill, folder_of, identity, read, segment_files
from odd_files import silent_pipe

from pipeline import cli
from sightword.errors import StoreError
from sightword.storage import maintenance
from sightword.storage.store import Store


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


def spoil(store: Store, features) -> set[bytes]:
    """Damage the first segment; its keys."""
    path, keys = segment_files(store)[0], list(features)
    lost = next(set(keys[part::2]) for part in range(2) if keys[part] in path.read_bytes())
    damage(path, features[next(iter(lost))])
    return lost


def test_a_survey_counts_each_feature_once(store) -> None:
    fill(store, identity(), range(20), segments=3)
    fill(store, identity(), range(5))
    fill(store, identity("vgg19"), range(4))
    found = {kind.identity["backbone"]: kind for kind in maintenance.survey(store)}
    assert (found["resnet152"].features, found["resnet152"].segments) == (20, 4)
    assert (found["vgg19"].features, found["vgg19"].damaged) == (4, [])
    folder = folder_of(store)
    assert found["resnet152"].bytes == sum(path.stat().st_size for path in folder.glob("*.parquet"))


def test_damage_is_found_and_pruned_and_nothing_else(store) -> None:
    features = fill(store, identity(), range(20), segments=2)
    lost = spoil(store, features)
    [kind] = maintenance.survey(store)
    assert (kind.features, len(kind.damaged)) == (10, 1)
    maintenance.prune(store)
    [kind] = maintenance.survey(store)
    assert (kind.features, kind.damaged, kind.segments) == (10, [], 1)
    assert read(store, features) == as_bytes({key: features[key] for key in features if key not in lost})


def test_large_segments_stay(store, monkeypatch) -> None:
    features = fill(store, identity(), range(60), segments=2)
    monkeypatch.setattr(maintenance, "MERGED_BYTES", 1000)
    before = segment_files(store)
    assert maintenance.prune(store).segments == 0
    assert segment_files(store) == before
    assert read(store, features) == as_bytes(features)


def test_a_reader_under_way_is_not_disturbed(store) -> None:
    features = fill(store, identity(), range(60), segments=12)
    reading = store.read(identity(), DIMENSION, list(features))
    first, _ = next(reading)
    maintenance.prune(store)
    seen = len(first) + sum(len(keys) for keys, _ in reading)
    assert seen == 60  # what was merged away meanwhile is looked for again


def test_a_segment_alone_may_be_merged_away_by_another_meanwhile(store, monkeypatch, caplog) -> None:
    fill(store, identity(), range(3))
    [path] = segment_files(store)
    real = Path.read_bytes

    def gone(which: Path) -> bytes:
        if which == path:
            path.unlink()
        return real(which)

    monkeypatch.setattr(Path, "read_bytes", gone)
    assert maintenance.prune(store) == maintenance.Pruning()
    assert not path.exists()
    assert caplog.messages == []


def test_a_sound_segment_that_cannot_be_read_now_is_not_thrown_away(store, monkeypatch) -> None:
    features = fill(store, identity(), range(20), segments=2)

    def no_memory(*arguments: object) -> None:
        raise MemoryError("malloc of size 1 failed")

    with monkeypatch.context() as patch:
        patch.setattr("sightword.storage.store.pa.BufferReader", no_memory)
        assert maintenance.prune(store).segments == 0
    assert read(store, features) == as_bytes(features)


def test_what_a_folder_holds_is_said_again_where_that_was_lost(store) -> None:
    features = fill(store, identity(), range(4))
    path = folder_of(store) / "identity.json"
    for spoil in (path.unlink, lambda: path.write_text("garbage")):
        spoil()
        assert next(maintenance.survey(store)).damaged
        read(store, list(features))
        assert not next(maintenance.survey(store)).damaged


def test_a_name_that_fits_several_kinds_removes_none(store) -> None:
    names = [f"net{number}" for number in range(40)]  # two of them begin alike, by the pigeonhole
    for name in names:
        fill(store, identity(name), range(1))
    with pytest.raises(StoreError, match=r"kinds begin with"):
        for start in "0123456789abcdef":
            maintenance.prune(store, remove=start, dry_run=True)


def test_kinds_are_removed_by_name_and_by_age(store) -> None:
    old, new = identity("vgg19"), identity()
    fill(store, old, range(4))
    fill(store, new, range(4))
    long_ago = time.time() - 100 * 24 * 3600
    os.utime(folder_of(store, old) / "identity.json", (long_ago, long_ago))
    assert maintenance.prune(store, unused_days=101).kinds == 0
    assert maintenance.prune(store, unused_days=99, dry_run=True).kinds == 1
    assert (folder_of(store, old)).exists()
    assert maintenance.prune(store, unused_days=99).kinds == 1
    assert [kind.name for kind in maintenance.survey(store)] == [new.name]
    assert maintenance.prune(store, remove=new.name[:6]).kinds == 1
    assert list(maintenance.survey(store)) == []


def test_reading_counts_as_use(store) -> None:
    features = fill(store, identity(), range(4))
    long_ago = time.time() - 100 * 24 * 3600
    os.utime(folder_of(store) / "identity.json", (long_ago, long_ago))
    read(store, list(features))
    assert maintenance.prune(store, unused_days=1).kinds == 0


def test_leftovers_of_killed_processes_go_after_a_day(store) -> None:
    fill(store, identity(), range(4))
    folder = folder_of(store)
    fresh, old = folder / f".{'a' * 32}.parquet.x.tmp", folder / f".{'b' * 32}.parquet.y.tmp"
    probe = folder / ".probe.0123456789ab.tmp"  # of a process killed while it looked whether there is room
    for path in (fresh, old, probe):
        path.write_bytes(b"half")
    two_days_ago = time.time() - 2 * 24 * 3600
    for path in (old, probe):
        os.utime(path, (two_days_ago, two_days_ago))
    assert maintenance.prune(store).leftovers == 2
    assert fresh.exists()
    assert not old.exists()
    assert not probe.exists()


def test_a_kind_that_is_not_what_its_folder_says(store) -> None:
    fill(store, identity(), range(4))
    path = folder_of(store) / "identity.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "backbone": "vgg19"}))
    [kind] = maintenance.survey(store)
    assert kind.identity == {}
    assert "not what the folder's name says" in kind.damaged[0]


def test_the_commands(store, capsys, monkeypatch) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        code = cli.main(["store", *arguments])
        return code, capsys.readouterr().out

    monkeypatch.setenv("SIGHTWORD_STORE", str(store.place.folder))
    assert cli.main(["store", "stats"]) == 1
    assert "there is no store here" in capsys.readouterr().err
    fill(store, identity(), range(20), segments=2)
    code, shown = run("stats")
    assert code == 0
    assert "resnet152 avgpool, weights 000000000000, fp32, cpu, code 111111111111" in shown
    assert "ten crop(s) of 224, L2" in shown
    assert "20 features in 2 segments" in shown
    assert run("verify")[0] == 0
    segment_files(store)[0].chmod(0o644)
    segment_files(store)[0].write_bytes(b"damaged")
    code, shown = run("verify")
    assert code == 1
    assert "damaged: " in shown
    assert "10 features are sound, 1 places are damaged" in shown
    assert "see `sightword store verify`" in run("stats")[1]
    assert "would merge 2 segments" in run("prune", "--dry-run")[1]
    assert "merged 2 segments" in run("prune")[1]
    assert run("verify", "--store", str(store.place.folder))[0] == 0
    assert "removed 1 kinds" in run("prune", "--remove", identity().name[:4])[1]
    for wrong in (["store"], ["store", "prune", "--unused", "-1"], ["store", "burn"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(wrong)
        assert caught.value.code == 2


def test_looking_after_a_store_needs_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, sightword.storage.maintenance; print('torch' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "False"


def test_a_pipe_with_the_name_of_a_segment_is_not_waited_for(store, capsys, caplog) -> None:
    features = fill(store, identity(), range(20))
    pipe = folder_of(store) / f"{'0' * 32}.parquet"
    with silent_pipe(pipe):
        assert read(store, features) == as_bytes(features)
        assert not read(store, [bytes(32)])
        assert "a pipe or a device, not a regular file" in caplog.text
        assert cli.main(["store", "verify", "--store", str(store.place.folder)]) == 1
        assert f"damaged: {pipe}: all or some features (it is a pipe or a device" in capsys.readouterr().out
        assert maintenance.prune(store, dry_run=True).segments == 2
        assert pipe.exists()
        assert maintenance.prune(store).segments == 2
    assert not pipe.exists()
    assert read(store, features) == as_bytes(features)


def test_a_link_in_a_circle_is_reported_and_pruned(store, capsys) -> None:
    features = fill(store, identity(), range(20))
    link = folder_of(store) / f"{'0' * 32}.parquet"
    link.symlink_to(link.name)
    assert read(store, features) == as_bytes(features)
    place = ["--store", str(store.place.folder)]
    assert cli.main(["store", "stats", *place]) == 0
    assert "1 places are damaged" in capsys.readouterr().out
    assert cli.main(["store", "verify", *place]) == 1
    assert f"damaged: {link}: all or some features (Too many levels of symbolic links)" in capsys.readouterr().out
    assert cli.main(["store", "prune", *place]) == 0
    assert not link.is_symlink()
    assert cli.main(["store", "verify", *place]) == 0
    assert read(store, features) == as_bytes(features)
