from __future__ import annotations

import pytest

from sightword.evaluation.semantics.datasets import read_task
from sightword.evaluation.semantics.results import Seen, bare


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("A dog's ball , on the street .", "a dog s ball on the street"),
        ("  TWO-tone\tSTRASSE ", "two tone strasse"),
        ("... !", ""),
        ("Ma\u0308dchen, كَلْبٌ؟ हिन्दी।", "mädchen كَلْبٌ हिन्दी"),
    ],
)
def test_case_and_punctuation_do_not_count(sentence, rule):
    assert bare(sentence) == rule


def test_the_share_counts_repeated_sentences_each_time():
    seen = Seen(["A dog runs .", "two cats"])
    assert seen.mask(["a dog runs", "a dog runs!", "Two cats .", "a dog", "."]).mean() == 0.6


def test_a_sentence_without_letters_was_never_seen():
    assert not Seen(["..."]).mask(["!", "..."]).any()


def test_three_quarters_of_sts15_images_are_flickr8k_training_captions(real_data):
    flickr = real_data / "flickr8k"
    train = set((flickr / "Flickr_8k.trainImages.txt").read_text().split())
    rows = [line.split("\t", 1) for line in (flickr / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines()]
    seen = Seen(caption for name, caption in rows if name.split("#")[0] in train)
    images = read_task("STS15", real_data / "senteval").subtasks["images"]
    assert round(100 * seen.mask([*images.first, *images.second]).mean(), 1) == 75.5
