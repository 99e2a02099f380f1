"""The preparation of some sets as in SentEval's download script.

The Moses tokeniser, which the script runs on STS and SICK, is not needed: the fetched files are tokenised.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from sightword.errors import DownloadError

SNLI_PARTS = ("train", "dev", "test")

# MacIntyre's rules of the Penn Treebank (1995), in their order, which matters. They work on bytes, as sed's do.
_RULES: list[tuple[re.Pattern[bytes], bytes]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (rb'^"', rb"`` "),
        (rb'([ (\[{<])"', rb"\1 `` "),
        (rb"\.\.\.", rb" ... "),
        (rb"([,;:@#$%&])", rb" \1 "),
        (rb"([^.])(\.)([\])}>\"']*)[ \t]*$", rb"\1 \2\3 "),
        (rb"([?!])", rb" \1 "),
        (rb"([\]\[(){}<>])", rb" \1 "),
        (rb"--", rb" -- "),
        (rb"$", rb" "),
        (rb"^", rb" "),
        (rb'"', rb" '' "),
        (rb"([^'])' ", rb"\1 ' "),
        (rb"'([sSmMdD]) ", rb" '\1 "),
        *((b"'%b " % ending, b" '%b " % ending) for ending in (b"ll", b"re", b"ve")),
        (rb"n't ", rb" n't "),
        *((b"'%b " % ending, b" '%b " % ending) for ending in (b"LL", b"RE", b"VE")),
        (rb"N'T ", rb" N'T "),
        (rb" ([Cc])annot ", rb" \1an not "),
        (rb" ([Dd])'ye ", rb" \1' ye "),
        (rb" ([Gg])imme ", rb" \1im me "),
        (rb" ([Gg])onna ", rb" \1on na "),
        (rb" ([Gg])otta ", rb" \1ot ta "),
        (rb" ([Ll])emme ", rb" \1em me "),
        (rb" ([Mm])ore'n ", rb" \1ore 'n "),
        (rb" '([Tt])is ", rb" '\1 is "),
        (rb" '([Tt])was ", rb" '\1 was "),
        (rb" ([Ww])anna ", rb" \1an na "),
        (rb"  *", rb" "),
        (rb"^ *", rb""),
    ]
]


def penn_treebank(line: bytes) -> bytes:
    """Return a sentence (without its line end) with spaces between its tokens, as SentEval's ``tokenizer.sed`` does."""
    for pattern, replacement in _RULES:
        line = pattern.sub(replacement, line)
    return line


def without_quotes(folder: Path) -> None:
    """Remove apostrophes and grave accents from every file, as the script does with TREC's questions."""
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes().translate(None, b"`'"))


def split_snli(folder: Path) -> None:
    """Split each ``snli_1.0_PART.txt`` below a folder into ``labels``, ``s1`` and ``s2``, and delete it.

    Pairs without an agreed label are left out. DownloadError if a part is missing, or not as published.
    """
    for part in SNLI_PARTS:
        files = sorted(folder.rglob(f"snli_1.0_{part}.txt"))
        if len(files) != 1:
            raise DownloadError(f"the archive has no snli_1.0_{part}.txt", where=folder)
        (file,) = files
        with (
            open(file, "rb") as lines,
            open(file.with_name(f"labels.{part}"), "wb") as labels,
            open(file.with_name(f"s1.{part}"), "wb") as first,
            open(file.with_name(f"s2.{part}"), "wb") as second,
        ):
            header = next(lines, b"").split(b"\t")
            if header[:1] != [b"gold_label"] or header[5:7] != [b"sentence1", b"sentence2"]:
                raise DownloadError("has no header of SNLI", where=file)
            for line in lines:
                columns = line.rstrip(b"\n").split(b"\t")
                if columns[0] == b"-":
                    continue
                if len(columns) < 7:
                    raise DownloadError(f"has a line of {len(columns)} columns", where=file)
                labels.write(columns[0] + b"\n")
                first.write(penn_treebank(columns[5]) + b"\n")
                second.write(penn_treebank(columns[6]) + b"\n")
        file.unlink()


PREPARATIONS: dict[str, Callable[[Path], None]] = {"quotes": without_quotes, "snli": split_snli}
