"""Ratings of concreteness: good and bad files, means by hand and on the published data."""

from __future__ import annotations

import gzip

import pytest

from sightword.errors import SemanticsError
from sightword.grounded.judging.relatedness import by_genre, concreteness, mean_rating, read_parts, read_ratings

HEAD = "Word\tBigram\tConc.M\n"


def test_words_are_folded_and_tokens_count_as_often_as_they_occur(tmp_path):
    path = tmp_path / "ratings.txt.gz"
    path.write_bytes(gzip.compress((HEAD + "I\t0\t3.9\r\ndog\t0\t5\nhot dog\t1\t4\n").encode()))
    ratings = read_ratings(path)
    assert ratings == {"i": 3.9, "dog": 5.0, "hot dog": 4.0}
    found = mean_rating(ratings, ["I saw a dog.", "Dog's dog!"])
    assert found == {"mean": pytest.approx((3.9 + 3 * 5) / 4), "tokens": 7, "rated": 4}
    assert mean_rating(ratings, ["..."]) == {"mean": None, "tokens": 0, "rated": 0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"Word\tMean\ndog\t4\n",
            "line 1: has no column Conc.M .it has: Word, Mean.. The published file has",
        ),
        (
            b"Word\tConc.M\ndog\t4\nDog\t3\n",
            "line 3: the word 'dog' stands twice, with the rating 4.0 .*, line 2. and the rating 3.0",
        ),
        (b"Word\tConc.M\ndog\t5.5\n", "line 2: the rating is '5.5'; expected a number from 1 to 5"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path, content, message):
    (tmp_path / "ratings.txt").write_bytes(content)
    with pytest.raises(SemanticsError, match=message):
        read_ratings(tmp_path / "ratings.txt")


def test_published_pairs_and_ratings_give_the_papers_means(real_data):
    """The paper prints 3.10, 2.61 and 2.39, with other tokens."""
    parts, _ = read_parts(["STSBenchmark"], real_data / "senteval")
    counts = {genre: len(pairs) for genre, _, pairs in by_genre(parts[0])}
    assert counts == {"captions": 625, "news": 500, "forums": 254}
    ratings = read_ratings(real_data / "concreteness/brysbaert2014_concreteness.txt.gz")
    assert len(ratings) == 39_954
    found = concreteness(parts, ratings)
    assert {genre: round(one["mean"], 2) for genre, one in found.items()} == {
        "captions": 3.14,
        "news": 2.72,
        "forums": 2.49,
    }
    shares = {genre: round(one["rated"] / one["tokens"], 2) for genre, one in found.items()}
    assert shares == {"captions": 0.93, "news": 0.73, "forums": 0.90}
