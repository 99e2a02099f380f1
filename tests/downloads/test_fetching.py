"""A file ends in its place, checked and prepared, or nothing has changed and it is told why."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import requests
from servers import free_port

from pipeline.downloads import fetching
from pipeline.downloads.fetching import fetch, penn_treebank, split_snli, without_quotes
from pipeline.downloads.sources import Source
from sightword.errors import DownloadError
from sightword.io.transfer import NoConnectionError, UnreachableError

BODY = random.Random(0).randbytes(300_000)
SHA256 = hashlib.sha256(BODY).hexdigest()
MD5 = hashlib.md5(BODY).hexdigest()


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def leftovers(raw: Path) -> set[str]:
    return {path.name for path in (raw / "downloads" / "own").iterdir()} - {".lock"}


def test_file_is_checked_and_put_in_place(site, source, order, raw):
    site.files["words.txt"] = BODY
    outcome = fetch(source(sha256=SHA256, md5=MD5, size=len(BODY), to="some/where"), order())
    assert outcome == fetching.Outcome("fetched", SHA256, site.url("words.txt"), True)
    assert content(raw / "own") == {"some/where/words.txt": BODY}
    assert leftovers(raw) == {"words.txt.json"}
    assert json.loads((raw / "downloads/own/words.txt.json").read_text()) == {
        "address": site.url("words.txt"),
        "sha256": SHA256,
        "size": len(BODY),
        "removed": True,
    }
    assert (raw / "downloads/.gitignore").read_text() == "*\n"


def test_second_fetch_sends_no_request(site, source, archive, order, raw):
    site.files["words.txt"] = BODY
    words = source(sha256=SHA256)
    for entry in (words, archive):
        assert fetch(entry, order()).state == "fetched"
    site.requests.clear()
    assert fetch(words, order()) == fetching.Outcome("there", SHA256, "", True)
    assert fetch(archive, order()).sha256 == hashlib.sha256(site.files["own.zip"]).hexdigest()
    assert site.requests == []
    (raw / "own/words.txt").unlink()
    assert fetch(words, order()).state == "fetched"
    assert site.requests == [("words.txt", None)]


@pytest.mark.parametrize("known", [{"sha256": "0" * 64}, {"md5": "0" * 32}])
def test_other_file_than_published_is_set_aside(site, source, order, raw, known):
    site.files["words.txt"] = BODY
    found = SHA256 if "sha256" in known else MD5
    with pytest.raises(DownloadError, match=f"{found}, not 000.*kept as .*words.txt.wrong"):
        fetch(source(**known), order())
    assert not (raw / "own").exists()
    assert leftovers(raw) == {"words.txt.wrong"}
    site.files["words.txt"] = b"right"
    right = {"sha256": hashlib.sha256(b"right").hexdigest()}
    assert fetch(source(**right), order()).state == "fetched"
    assert leftovers(raw) == {"words.txt.json"}


def test_part_of_another_file_is_fetched_once_more(site, source, order, raw):
    """The beginning came from a mirror that has another file: only the hash can tell."""
    site.files["mirror/own/words.txt"] = bytes(300_000)
    site.plans["mirror/own/words.txt"] = ["cut 100000", "404"]
    site.files["words.txt"] = BODY
    fetch(source(sha256=SHA256), order(mirror=site.url("mirror")))
    assert content(raw / "own") == {"words.txt": BODY}
    assert [path for path, _ in site.requests] == ["mirror/own/words.txt"] * 2 + ["words.txt"] * 2


def test_beginning_of_a_hash_in_the_name_counts(site, source, order, raw):
    good, bad = f"net-{SHA256[:8]}.pth", "net-00000000.pth"
    site.files |= {good: BODY, bad: BODY}
    assert fetch(source(good), order()).checked
    with pytest.raises(DownloadError, match="not one that begins with 00000000"):
        fetch(source(bad), order())
    assert content(raw / "own") == {good: BODY}
    (raw / "own" / good).write_bytes(b"damaged later")
    with pytest.raises(DownloadError, match=f"begins with {SHA256[:8]}"):
        fetch(source(good), order())


@pytest.mark.parametrize("form", ["http", "folder"])
def test_mirror_is_asked_first(site, source, order, raw, tmp_path, form):
    site.files |= {"words.txt": b"published", "m/own/words.txt": BODY}
    (tmp_path / "m" / "own").mkdir(parents=True)
    (tmp_path / "m" / "own" / "words.txt").write_bytes(BODY)
    mirror = {"http": site.url("m/"), "folder": f"{tmp_path}/m/"}[form]
    fetch(source(), order(mirror=mirror))
    assert content(raw / "own") == {"words.txt": BODY}
    assert ("words.txt", None) not in site.requests


def test_all_addresses_are_tried_and_reasons_told(site, source, order, raw):
    site.files["third.txt"] = BODY
    urls = [site.url("first.txt"), site.url("second.txt")]
    site.plans["second.txt"] = ["page", "page"]
    site.files["second.txt"] = b"<html>"
    with pytest.raises(UnreachableError, match=r"first.txt.*404.*second.txt.*web page.*put it into .*/downloads/own"):
        fetch(source(urls=urls), order())
    assert fetch(source(urls=[*urls, site.url("third.txt")]), order()).address == site.url("third.txt")


@pytest.mark.parametrize("name", ["no-such-host.invalid", "127.0.0.1"])
def test_host_without_connection_is_not_asked_again(site, source, order, raw, caplog, monkeypatch, name):
    host = f"http://{name}:{free_port()}"
    site.files |= {"b.txt": BODY, "c.txt": BODY}
    asked: list[str] = []
    get = requests.get
    monkeypatch.setattr(requests, "get", lambda url, **more: asked.append(url) or get(url, **more))
    mine = order()
    with pytest.raises(NoConnectionError, match=rf"{host}/a.txt: no connection \(.*put it into {raw}/downloads/own"):
        fetch(source("a.txt", urls=[f"{host}/a.txt"]), mine)
    assert asked == [f"{host}/a.txt"] * 2
    with pytest.raises(NoConnectionError, match=rf"{host}/b.txt: no connection\."):
        fetch(source("b.txt", urls=[f"{host}/b.txt"]), mine)
    assert len(asked) == 2
    caplog.clear()
    assert fetch(source("c.txt", urls=[f"{host}/c.txt", site.url("c.txt")]), mine).address == site.url("c.txt")
    assert asked[2:] == [site.url("c.txt")]
    assert caplog.text == ""


def test_source_behind_a_form_comes_by_hand_or_from_a_mirror(source, order, raw, make_zip, site):
    asked = source("own.zip", urls=[], request="Fill in a form.", into={"**": "."}, needs=["a.txt"])
    assert fetch(asked, order()).state == "to ask for"
    assert fetch(asked, order(mirror=site.url("m"))).state == "to ask for"
    by_hand = raw / "downloads/own/own.zip"
    by_hand.write_bytes(make_zip({"a.txt": b"1"}))
    assert fetch(asked, order()).state == "fetched"
    assert content(raw / "own") == {"a.txt": b"1"}
    assert by_hand.exists(), "a person's file is theirs"
    site.files["m/own/own.zip"] = make_zip({"a.txt": b"2"})
    by_hand.unlink()
    (raw / "own/a.txt").unlink()
    assert fetch(asked, order(mirror=site.url("m"))).state == "fetched"
    assert content(raw / "own") == {"a.txt": b"2"}
    by_hand.write_bytes(make_zip({"a.txt": b"3"}))
    (raw / "own/a.txt").unlink()
    assert fetch(asked, order()).address == str(by_hand)
    assert by_hand.exists(), "a person's file is theirs, after a download too"


def test_a_mirrors_password_is_not_told(site, source, order, raw, caplog):
    with pytest.raises(DownloadError) as told:
        fetch(source(urls=["http://127.0.0.1:9/b"]), order(mirror="http://me:secret@127.0.0.1:9/m"))
    assert "http://***@127.0.0.1:9/m/own/words.txt" in str(told.value) + caplog.text
    assert "secret" not in str(told.value) + caplog.text


def test_file_put_by_hand_is_checked_and_left_alone(site, source, order, raw):
    by_hand = raw / "downloads/own/words.txt"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_bytes(b"another")
    with pytest.raises(DownloadError, match="has the sha256"):
        fetch(source(sha256=SHA256), order())
    with pytest.raises(DownloadError, match="has 7 bytes; expected 300000"):
        fetch(source(size=300_000), order())
    assert by_hand.read_bytes() == b"another"
    by_hand.write_bytes(BODY)
    assert fetch(source(sha256=SHA256), order()).address == str(by_hand)
    assert by_hand.read_bytes() == BODY
    assert site.requests == []


def test_archives_are_kept_on_demand(archive, order, raw, site):
    fetch(archive, order(keep=True))
    assert (raw / "downloads/own/own.zip").read_bytes() == site.files["own.zip"]
    site.requests.clear()
    shutil.rmtree(raw / "own")
    fetch(archive, order())
    assert site.requests == []
    assert not (raw / "downloads/own/own.zip").exists()


def test_files_of_a_person_in_the_folder_stay(archive, order, raw):
    (raw / "own/images").mkdir(parents=True)
    (raw / "own/images/mine.jpg").write_bytes(b"mine")
    (raw / "own/images/3.jpg").write_bytes(b"half a picture")
    (raw / "own/notes.txt").write_bytes(b"notes")
    assert archive.state(raw / "own") == "partly"
    fetch(archive, order())
    assert archive.state(raw / "own") == "there"
    found = content(raw / "own")
    assert len(found) == 22
    assert found["images/mine.jpg"] == b"mine"
    assert found["images/3.jpg"] == b"\x03" * 999


def test_folder_that_is_a_link_to_another_disk_is_filled(archive, order, raw, tmp_path, monkeypatch):
    """The link stays; where files cannot be moved there in one step, they are copied."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (raw / "own").mkdir()
    (raw / "own/images").symlink_to(elsewhere)
    replace = os.replace

    def across(old: Path, new: Path) -> None:
        if ".unpacked" in str(old):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(old, new)

    monkeypatch.setattr("os.replace", across)
    fetch(archive, order())
    assert (raw / "own/images").is_symlink()
    assert len(content(elsewhere)) == 20
    (raw / "own/images").unlink()
    fetch(archive, order())
    assert len(content(raw / "own")) == 20


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


def test_download_of_a_killed_process_is_continued(site, source, order, raw):
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


@pytest.mark.parametrize("after", [2, 7, 12])
def test_next_run_completes_after_a_kill_at_any_rename(site, source, order, raw, make_zip, after):
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


def test_processes_at_once_fetch_once(site, archive, raw):
    site.files["slow.txt"] = BODY
    processes = [process(archive, raw) for _ in range(3)]
    said = [running.communicate(timeout=60) for running in processes]
    assert sorted(out.strip() for out, _ in said) == ["fetched", "there", "there"], said
    assert [path for path, _ in site.requests] == ["own.zip"]
    assert len(content(raw / "own")) == 20


def test_full_disk_keeps_the_part_for_later(site, source, order, raw):
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


def test_disk_that_fills_while_unpacking_changes_nothing(site, archive, raw, make_zip, order):
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


# What GNU sed gives with the rules of SentEval's tokenizer.sed.
BY_SED = {
    "A woman's dog isn't here.": "A woman 's dog is n't here . ",
    'He said "go (now)", didn\'t he?': "He said `` go ( now ) '' , did n't he ? ",
    '"I cannot," they\'ll say...': "`` I can not , '' they 'll say ... ",
    "'tis 5% of $10; gonna: wanna": "'t is 5 % of $ 10 ; gon na : wan na ",
    "Two men -- one [old] {tall} <x>.": "Two men -- one [ old ] { tall } < x > . ",
    'The end."  ': "The end . '' ",
    "A café’s déjà-vu.": "A café’s déjà-vu . ",
    "dogs' bones WON'T": "dogs ' bones WO N'T ",
}

HEADER = "gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tcaptionID\tpairID\tlabel1\n"  # noqa: E501 - as published


@pytest.mark.parametrize(("line", "tokens"), BY_SED.items())
def test_the_rules_of_the_penn_treebank(line, tokens):
    assert penn_treebank(line.encode()) == tokens.encode()


def pair(label: str, first: str, second: str) -> str:
    return f"{label}\t( A )\t( B )\t(S A)\t(S B)\t{first}\t{second}\t1.jpg#0\t1.jpg#0r1e\t{label}\n"


def test_snli_is_split_and_pairs_without_a_label_are_left_out(tmp_path):
    for part in ("train", "dev", "test"):
        text = HEADER + pair("neutral", "A man's hat.", part) + pair("-", "x", "y") + pair("entailment", "a", "b?")
        (tmp_path / f"snli_1.0_{part}.txt").write_text(text)
    split_snli(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{kind}.{part}" for kind in ("labels", "s1", "s2") for part in ("train", "dev", "test")
    }
    assert (tmp_path / "labels.train").read_text() == "neutral\nentailment\n"
    assert (tmp_path / "s1.dev").read_text() == "A man 's hat . \na \n"
    assert (tmp_path / "s2.test").read_text() == "test \nb ? \n"


@pytest.mark.parametrize("text", ["", "<html>", HEADER + "neutral\tonly\n"])
def test_file_that_is_not_snli_is_refused(tmp_path, text):
    for part in ("train", "dev", "test"):
        (tmp_path / f"snli_1.0_{part}.txt").write_text(text)
    with pytest.raises(DownloadError, match=r"header of SNLI|2 columns"):
        split_snli(tmp_path)
    with pytest.raises(DownloadError, match=r"no snli_1.0_train.txt"):
        split_snli(tmp_path / "nowhere")


def test_quotes_of_trec_are_taken_out(tmp_path):
    (tmp_path / "TREC").mkdir()
    (tmp_path / "TREC/a.label").write_bytes(b"DESC:def What is `` a '' sister\xf0city 's name ?\n")
    without_quotes(tmp_path)
    assert (tmp_path / "TREC/a.label").read_bytes() == b"DESC:def What is  a  sister\xf0city s name ?\n"
