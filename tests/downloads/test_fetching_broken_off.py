"""Killed processes, two at once, full disks: a fetch that was broken off is gone on from."""

from __future__ import annotations

import logging
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from fetched import BODY, SHA256, content, leftovers

from pipeline.downloads import fetching
from pipeline.downloads.fetching import fetch
from pipeline.downloads.sources import Source
from sightword.errors import DownloadError

SCRIPT = """
    import sys
    from pathlib import Path
    from pipeline.downloads.fetching import Order, fetch
    from pipeline.downloads.sources import Source
    from sightword.io.transfer import Patience
    from sightword.errors import DownloadError
    source = Source.model_validate_json(sys.argv[1])
    try:
        print(fetch(source, Order("own", Path(sys.argv[2]) / "own", patience=Patience(wait=0.01))).state)
    except DownloadError as error:
        sys.exit(str(error))
"""


def process(source: Source, raw: Path, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), source.model_dump_json(), str(raw)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_killed_process_is_gone_on_from(site, source, order, raw):
    site.files["words.txt"], site.plans["words.txt"] = BODY, ["slow 200000"]
    words = source(sha256=SHA256)
    with process(words, raw) as running:
        assert site.silent.wait(30)
        part = raw / "downloads/own/words.txt.part"
        while not part.exists() or part.stat().st_size < 180_000:
            time.sleep(0.01)
        running.kill()
        assert running.wait() == -signal.SIGKILL
    site.requests.clear()
    fetch(words, order())
    assert content(raw / "own") == {"words.txt": BODY}
    ((_, asked),) = site.requests
    assert int(asked.removeprefix("bytes=").rstrip("-")) >= 180_000 - 2**17
    assert leftovers(raw) == {"words.txt.json"}


@pytest.mark.parametrize("after", range(1, 19, 3))
def test_killed_at_any_rename_the_next_run_finds_its_way(site, source, order, raw, make_zip, after):
    """Each step that others can see is one rename, link or removal; the process dies before one of them."""
    site.files["own.zip"] = make_zip({"pictures/1.jpg": b"1", "pictures/2.jpg": b"2"})
    archive = source("own.zip", into={"pictures/*.jpg": "images"}, counts={"images": 2})
    code = textwrap.dedent(SCRIPT).replace(
        "source = ",
        f"""import os
count = 0
for name in ("replace", "rename", "link", "unlink", "fsync"):
    def dying(*args, real=getattr(os, name), **options):
        global count
        count += 1
        if count == {after}:
            os._exit(77)
        return real(*args, **options)
    setattr(os, name, dying)
source = """,
    )
    command = [sys.executable, "-c", code, archive.model_dump_json(), str(raw)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 77
    assert archive.state(raw / "own") in ("missing", "there")
    fetch(archive, order())
    assert archive.state(raw / "own") == "there"
    assert not {name for name in leftovers(raw) if name.startswith("tmp") or name.endswith(".unpacked")}


def test_two_at_once_fetch_once(site, archive, raw):
    site.files["slow.txt"] = BODY
    processes = [process(archive, raw) for _ in range(3)]
    said = [running.communicate(timeout=60) for running in processes]
    assert sorted(out.strip() for out, _ in said) == ["fetched", "there", "there"], said
    assert [path for path, _ in site.requests] == ["own.zip"]
    assert len(content(raw / "own")) == 20


def test_waiting_for_another_process_is_told(archive, order, raw, caplog):
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with fetching._locked(order().working / ".lock"):
            held.set()
            release.wait(30)

    order().working.mkdir(parents=True)
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    waiting = threading.Thread(target=fetch, args=(archive, order()))
    with caplog.at_level(logging.WARNING):
        waiting.start()
        while "another process is fetching here" not in caplog.text:
            waiting.join(0.01)
    release.set()
    holder.join()
    waiting.join()
    assert archive.state(raw / "own") == "there"


def test_a_full_disk_keeps_the_part_for_later(site, source, order, raw):
    """The process may write no file larger than 100 kB, which it meets as it would a full disk."""
    site.files["words.txt"] = BODY
    words = source(sha256=SHA256)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with process(words, raw, preexec_fn=limit) as running:
        _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "words.txt.part: the disk is full. Make room and run the command again" in said
    assert "Traceback" not in said
    have = (raw / "downloads/own/words.txt.part").stat().st_size
    assert have == 100_000
    site.requests.clear()
    fetch(words, order())
    assert site.requests == [("words.txt", f"bytes={have}-")]
    assert content(raw / "own") == {"words.txt": BODY}


def test_a_disk_that_fills_while_unpacking(site, archive, raw, make_zip, order):
    site.files["own.zip"] = make_zip({f"pictures/{number}.jpg": bytes(200_000) for number in range(20)})

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with process(archive, raw, preexec_fn=limit) as running:
        _, said = running.communicate(timeout=60)
    assert "the disk is full" in said
    assert not (raw / "own").exists()
    assert leftovers(raw) == {"own.zip", "own.zip.json"}
    site.requests.clear()
    fetch(archive, order())
    assert site.requests == [], "the archive had come"


def test_a_working_folder_that_cannot_be_made_is_told_with_its_place(source, order, raw):
    (raw / "downloads").write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match=r"downloads/own: cannot be written"):
        fetch(source(), order())
