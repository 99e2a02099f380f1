"""A file comes whole, however often the line is cut, or it is told why not."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd_files import silent_pipe

from sightword.errors import DownloadError
from sightword.io import transfer
from sightword.io.transfer import Patience, Resuming, UnreachableError

BODY = random.Random(0).randbytes(200_000)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return tmp_path / "a.zip.part"


@pytest.fixture(autouse=True)
def _body(site) -> None:
    site.files["a.zip"] = BODY


def test_cut_download_asks_for_the_rest_each_time(site, part, patience):
    site.plans["a.zip"] = ["cut 70000", "cut 50000"]
    Resuming(part, patience=patience).fill(site.url("a.zip"))
    assert part.read_bytes() == BODY
    starts = [int(asked.removeprefix("bytes=").rstrip("-")) for _, asked in site.requests[1:]]
    assert site.requests[0] == ("a.zip", None)
    # What of the last piece had come when the line was cut may be asked for once more.
    assert len(starts) == 2
    assert 70000 - transfer.CHUNK < starts[0] <= 70000
    assert starts[0] + 50000 - transfer.CHUNK < starts[1] <= starts[0] + 50000


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    plan=st.lists(st.sampled_from(["cut 0", "cut 40000", "503", "changed", "shifted", "429 0"]), max_size=5),
    ranges=st.booleans(),
    tags=st.booleans(),
    weak=st.booleans(),
    heeds=st.booleans(),
    tells=st.booleans(),
    checked=st.booleans(),
)
def test_file_is_the_servers_last_one_whatever_happens(site, part, plan, ranges, tags, weak, heeds, tells, checked):
    site.files["a.zip"] = BODY
    site.plans["a.zip"], site.ranges, site.tags, site.weak = list(plan), ranges, tags, weak
    site.heeds_if_range, site.tells_of_parts = heeds, tells
    attempt = Resuming(part, checked=checked, patience=Patience(tries=7, wait=0))
    attempt.discard()
    attempt.fill(site.url("a.zip"))
    if not checked or (tags and not weak and (heeds or tells)):
        assert part.read_bytes() == site.files["a.zip"]
    else:  # nothing tells that the file was exchanged on the way; that is what the hash is for
        assert part.stat().st_size == len(BODY)


@pytest.mark.parametrize("checked", [False, True])
def test_shorter_file_is_not_taken_for_the_whole(site, part, patience, checked):
    """It has as many bytes now as have come of the earlier one: with a hash the caller sees that, and is told so."""
    site.plans["a.zip"] = ["cut 70000", "404"]
    with pytest.raises(UnreachableError):
        Resuming(part, checked=checked, patience=patience).fill(site.url("a.zip"))
    site.files["a.zip"] = BODY[::-1][: part.stat().st_size]
    attempt = Resuming(part, checked=checked, patience=patience)
    attempt.fill(site.url("a.zip"))
    assert (part.read_bytes() != site.files["a.zip"]) == attempt.resumed == checked


def test_part_of_unknown_origin_is_not_continued(site, part, patience):
    part.write_bytes(b"another file's beginning")
    Resuming(part, patience=patience).fill(site.url("a.zip"))
    assert part.read_bytes() == BODY


def test_whole_part_is_not_fetched_again(site, part, patience):
    for _ in range(2):
        Resuming(part, checked=True, patience=patience).fill(site.url("a.zip"))
    assert site.requests[-1] == ("a.zip", f"bytes={len(BODY)}-")
    assert part.read_bytes() == BODY


def test_passing_fault_is_waited_for_as_the_server_says(site, part, patience, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    site.plans["a.zip"] = ["503", "429 7", "500"]
    Resuming(part, patience=Patience(wait=1)).fill(site.url("a.zip"))
    assert waits == [1, 7, 4]
    assert part.read_bytes() == BODY


def test_server_that_asks_for_long_patience_is_left_alone(site, part, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits"))
    site.plans["a.zip"] = ["429 3600"] * 99
    with pytest.raises(UnreachableError, match=r"answers 429 .* and asks for 3,600 seconds of patience"):
        Resuming(part).fill(site.url("a.zip"))
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (["404"], "404"),
        (["page"], "web page"),
        (["302 nowhere"], "404"),
        (["301 a.zip"] * 99, "redirects"),
    ],
)
def test_lasting_error_is_not_tried_again(site, part, patience, plan, said):
    site.plans["a.zip"] = plan
    with pytest.raises(UnreachableError, match=said):
        Resuming(part, patience=patience).fill(site.url("a.zip"))
    assert not part.exists()


def test_redirection_is_followed_also_for_the_rest(site, part, patience):
    site.plans["old.zip"] = ["302 a.zip", "307 a.zip"]
    site.plans["a.zip"] = ["cut 70000"]
    Resuming(part, patience=patience).fill(site.url("old.zip"))
    assert part.read_bytes() == BODY
    assert [path for path, _ in site.requests] == ["old.zip", "a.zip"] * 2


def test_silent_server_counts_as_cut(site, part):
    site.plans["a.zip"] = ["slow 70000"]
    Resuming(part, patience=Patience(wait=0.01, timeout=0.2)).fill(site.url("a.zip"))
    assert part.read_bytes() == BODY


def test_other_size_than_published_is_told_at_once(site, part, patience):
    with pytest.raises(UnreachableError, match="200000 bytes, not 5"):
        Resuming(part, size=5, patience=patience).fill(site.url("a.zip"))
    assert not part.exists()


@pytest.mark.parametrize("address", ["gopher://example.org/a", "http://[::1/a.zip"])
def test_address_without_meaning_is_refused(part, patience, address):
    with pytest.raises(DownloadError):
        Resuming(part, patience=patience).fill(address)


def test_file_of_this_machine_is_copied(tmp_path, part):
    (tmp_path / "a b.zip").write_bytes(BODY)
    for form in ("{}", "file://{}"):
        Resuming(part, size=len(BODY)).fill(form.format(tmp_path / "a b.zip"))
        assert part.read_bytes() == BODY
    with pytest.raises(UnreachableError, match="does not exist"):
        Resuming(part).fill(str(tmp_path / "b.zip"))


def test_disk_without_room_is_told_before_the_download(site, part, patience, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=5))
    with pytest.raises(DownloadError, match="200,000 bytes are to come, and the disk has room for 5") as told:
        Resuming(part, patience=patience).fill(site.url("a.zip"))
    assert not isinstance(told.value, UnreachableError)


def test_published_size_tells_a_cut_without_length(site, part, patience):
    site.lengths = False
    site.plans["a.zip"] = ["cut 70000", "cut 50000"]
    Resuming(part, size=len(BODY), patience=patience).fill(site.url("a.zip"))
    assert part.read_bytes() == BODY


def test_more_than_the_published_size_is_refused(site, part, patience):
    """A server that never ends would fill the disk."""
    site.lengths = False
    with pytest.raises(UnreachableError, match="more than 1000 bytes"):
        Resuming(part, size=1000, patience=patience).fill(site.url("a.zip"))
    assert len(site.requests) == 1
    assert not part.exists()


def test_pipe_at_a_mirror_is_not_waited_for(tmp_path, part):
    with (
        silent_pipe(tmp_path / "pipe"),
        pytest.raises(UnreachableError, match=r"pipe: cannot be read \(it is a pipe or a device, not a regular file\)"),
    ):
        Resuming(part).fill(str(tmp_path / "pipe"))
