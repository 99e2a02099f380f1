"""What SentEval's script does to some sets."""

from __future__ import annotations

import pytest

from pipeline.downloads.fetching import penn_treebank, split_snli, without_quotes
from sightword.errors import DownloadError

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
