"""Names that differ in form only are found, or named with the difference."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.io import names
from sightword.io.names import Names

KNOWN = ["sub/1.png", "a b.jpg", "C.JPG", "images/x.jpg", "y.png", "cafe\u0301.png", "train/7.jpg", "v.1"]


@given(st.lists(st.text("ae\u0301\u0300é/.", min_size=1)), st.sampled_from(["NFC", "NFD"]))
def test_a_name_matches_the_only_known_name_of_the_same_characters(known, form):
    found = Names(known)
    for name in known:
        same = {one for one in known if unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", name)}
        asked = unicodedata.normalize(form, name)
        assert found.match(asked) == (asked if asked in same else next(iter(same)) if len(same) == 1 else None)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("sub\\1.png", ("sub/1.png", "separator")),
        ("a\u00a0b.jpg ", ("a b.jpg", "blanks")),
        ("a%20b.jpg", ("a b.jpg", "blanks")),
        ("c.jpg", ("C.JPG", "capitals")),
        ("images/images/x.jpg", ("images/x.jpg", "folder")),
        ("y.jpeg", ("y.png", "ending")),
        ("IMAGES\\X.jpeg", ("images/x.jpg", "separator and capitals and ending")),
        ("CAF\u00c9.png", ("cafe\u0301.png", "Unicode form and capitals")),
        ("val/7.jpg", None),
        ("v.2", None),
    ],
)
def test_nearest_name_is_told_with_what_differs(name, nearest):
    known, forms = Names(KNOWN).nearest(name)
    assert (known, " and ".join(forms)) == (nearest or ("", ""))


def test_a_remark_counts_the_names_and_quotes_the_first():
    assert Names(KNOWN).remark(["z.png", "x.jpg", "c.jpg"]) == (
        2,
        "'x.jpg' is there as 'images/x.jpg', which differs in: folder",
    )
    assert Names(KNOWN).remark(["z.png"]) == (0, "")


def test_names_are_compared_with_few_others(monkeypatch):
    compared = []
    monkeypatch.setattr(names, "_differences", lambda *pair: compared.append(pair) or ["separator"])
    known = [f"{number}/img.png" for number in range(5000)]
    assert Names(known).remark(name.replace("/", "\\") for name in known)[0] == 5000
    assert len(compared) == 5000
