"""The ledger of scorings: a file that is the set of all scorings, whoever writes it, whenever they are killed."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from sightword.errors import FileFormatError
from sightword.evaluation import ledger
from sightword.evaluation.ledger import Count, Scoring

HASHES = strategies.sampled_from([f"{number:016x}" for number in (0, 7, 2**60)])
SCORINGS = strategies.builds(
    Scoring,
    strategies.sampled_from(["test", "sealed"]),
    strategies.sampled_from(["pictures", "STS12", 'my set, the "first"']),
    strategies.integers(0, 10**6),
    HASHES,
    HASHES,
    HASHES,
    strategies.sampled_from(["retrieval", "semantics"]),
)
HEADER = "split,of,items,rows,encoder,recipe,stage\n"


def scoring(number: int, of: str = "pictures") -> Scoring:
    return Scoring("test", of, 5, "a" * 16, f"{number:016x}", "b" * 16, "retrieval")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(strategies.lists(SCORINGS), strategies.randoms())
def test_ledger_of_the_same_scorings_in_any_order_and_portions_has_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, scorings: list[Scoring], draw: random.Random
) -> None:
    one, other = (tmp_path_factory.mktemp("ledger") / "scorings.csv" for _ in range(2))
    assert ledger.add(one, scorings) == sorted(set(scorings))
    mixed = scorings * 2
    draw.shuffle(mixed)
    cut = draw.randint(0, len(mixed))
    ledger.add(other, mixed[:cut])
    ledger.add(other, mixed[cut:])
    assert one.read_bytes() == other.read_bytes()
    assert ledger.read(one) == sorted(set(scorings))


def test_missing_ledger_is_made_and_the_same_scoring_again_leaves_the_file_alone(tmp_path: Path) -> None:
    place = tmp_path / "metrics" / "scorings.csv"
    assert ledger.read(place) == []
    ledger.add(place, [])
    assert place.read_text() == HEADER
    ledger.add(place, [scoring(1)])
    before = place.stat()
    ledger.add(place, [scoring(1)])
    after = place.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_lines_that_a_merge_left_out_of_order_or_twice_are_in_order_after_the_next_stage(tmp_path: Path) -> None:
    place = tmp_path / "scorings.csv"
    ledger.add(place, [scoring(1), scoring(2)])
    whole = place.read_text()
    header, first, second = whole.splitlines(keepends=True)
    place.write_text(header + second + first + second)
    ledger.add(place, [scoring(2)])
    assert place.read_text() == whole


ROW = "test,pictures,5,aaaaaaaaaaaaaaaa,bbbbbbbbbbbbbbbb,,retrieval\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: has the header ''; expected split,of,items"),
        ("a,b\n" + ROW, "line 1: has the header 'a,b'; expected split,of"),
        (HEADER + "test,pictures\n", "line 2: has 2 cells; expected 7: split, of"),
        (HEADER + ROW + ROW.replace("bbbb", "xyz!"), "line 3: encoder is 'xyz!xyz!xyz!xyz!'; expected 16 digits"),
        (HEADER + ROW.replace("5", "-5"), "line 2: items is '-5'; expected a whole number"),
        (HEADER + ROW.replace("test", ""), "line 2: split is ''; expected a name"),
        (HEADER + "<<<<<<< ours\n" + ROW, "line 2: has 1 cell; expected 7"),
    ],
)
def test_edited_ledger_is_refused_with_its_line_and_stays_as_it_is(tmp_path: Path, text: str, message: str) -> None:
    place = tmp_path / "scorings.csv"
    place.write_text(text)
    with pytest.raises(FileFormatError) as error:
        ledger.add(place, [scoring(1)])
    assert message in str(error.value)
    assert "git checkout -- " in str(error.value)
    assert place.read_text() == text


def _add(place: Path, numbers: range) -> None:
    for number in numbers:
        ledger.add(place, [scoring(number)])


def test_several_processes_at_once_lose_no_scoring(tmp_path: Path) -> None:
    place = tmp_path / "scorings.csv"
    context = multiprocessing.get_context("fork")
    running = [context.Process(target=_add, args=(place, range(first, 90, 3))) for first in range(3)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    assert ledger.read(place) == [scoring(number) for number in range(90)]


@pytest.mark.slow
def test_killed_writer_leaves_a_whole_ledger_and_no_lock(tmp_path: Path) -> None:
    place = tmp_path / "scorings.csv"
    code = "import sys; from test_ledger import _add; from pathlib import Path; _add(Path(sys.argv[1]), range(10**6))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    draw, most = random.Random(0), 0
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", code, str(place)], env=environment)
        while len(ledger.read(place)) <= most and writer.poll() is None:
            time.sleep(0.01)
        time.sleep(draw.random() / 10)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        found = ledger.read(place)
        assert found == [scoring(number) for number in range(len(found))]
        most = len(found)
    ledger.add(place, [scoring(10**7)])
    assert len(ledger.read(place)) == most + 1


@given(strategies.lists(SCORINGS))
def test_count_is_that_of_the_rows_with_the_split(scorings: list[Scoring]) -> None:
    distinct = set(scorings)
    wanted = Counter((one.of, one.rows) for one in distinct)
    for (of, rows), number in wanted.items():
        encoders = {one.encoder for one in distinct if (one.of, one.rows) == (of, rows)}
        assert ledger.count(distinct, of, rows) == Count(number, len(encoders))
    assert ledger.count(distinct, "nothing", "0" * 16) == Count(0, 0)


def test_digest_of_rows_is_the_sha256_of_their_sorted_json() -> None:
    rows = [("b.jpg", "É", 1.5), ("a.jpg", None, 2)]
    lines = '["a.jpg",null,2]\n["b.jpg","\\u00c9",1.5]\n'
    assert ledger.digest(rows) == ledger.digest(rows[::-1]) == hashlib.sha256(lines.encode()).hexdigest()[:16]
    assert json.loads(lines.splitlines()[1])[1] == "É"


def test_counts_in_words_join_tasks_with_equal_numbers_of_encoders() -> None:
    counts = {("test", "STS12"): Count(2, 1), ("test", "SICK"): Count(1, 1), ("test", "STS13"): Count(3, 2)}
    words = "the test part of STS12, SICK with 1 encoder; the test part of STS13 with 2 encoders"
    assert ledger.in_words(counts) == words
    assert ledger.in_words({}) == ""
