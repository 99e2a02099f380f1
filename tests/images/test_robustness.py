"""Any picture a lab has: one row per kind of file, with what comes out of the stage resize."""

from __future__ import annotations

import errno
import os
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from picture_bytes import bmp, chunk, read_pictures, saved
from PIL import Image, ImageFile

from sightword.images.decode import Reason, RejectError, decode
from sightword.images.resized import Source, read_rejects, write_resized
from sightword.images.settings import ResizeSettings

Make = Callable[[Path], object]

RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)
TURNED = Image.Exif()
TURNED[274] = 6  # to be shown turned by 90 degrees: the left side is the top


@dataclass(frozen=True)
class Row:
    """A file, and what becomes of it: a picture (its size and two of its pixels) or a reason."""

    kind: str  # as docs/features.md calls it
    name: str
    make: Make
    size: tuple[int, int] | None = None
    first: tuple[int, int, int] | None = None  # the pixel an eighth from the upper left corner
    last: tuple[int, int, int] | None = None  # the pixel an eighth from the lower right corner
    off: int = 0  # how far the pixels may be off, for encodings with loss
    reason: str | None = None
    detail: str = ""  # a pattern
    exif: bool = False
    encoding: str = "webp"


def halves(first: object, last: object, mode: str = "RGB", size: tuple[int, int] = (40, 20)) -> Image.Image:
    """A picture whose left half has one colour and whose right half another."""
    picture = Image.new(mode, size, first)
    picture.paste(last, (size[0] // 2, 0, *size))
    return picture


def palette() -> Image.Image:
    picture = halves(0, 1, "P")
    picture.putpalette([*RED, *BLUE])
    return picture


def grey16(left: int, right: int) -> Image.Image:
    return Image.fromarray(np.repeat(np.array([[left, right]], np.uint16), 20, axis=1).repeat(20, axis=0))


def file(picture: Image.Image, kind: str = "PNG", **options: object) -> Make:
    return holding(saved(picture, kind, **options))


def holding(data: bytes) -> Make:
    return lambda path: path.write_bytes(data)


def link(target: str) -> Make:
    return lambda path: path.symlink_to(target)


def secret(path: Path) -> None:
    path.write_bytes(b"x")
    path.chmod(0)


def outside(path: Path) -> None:
    """A link to a file beside the folder of pictures, by a relative path."""
    (path.parent.parent / "elsewhere").mkdir(exist_ok=True)
    halves(RED, BLUE).save(path.parent.parent / "elsewhere/picture.png")
    path.symlink_to("../elsewhere/picture.png")


def patched(data: bytes, offset: int, new: bytes) -> bytes:
    return data[:offset] + new + data[offset + len(new) :]


def without_a_piece(data: bytes, other: bytes) -> bytes:
    return patched(data, len(data) // 2, other)


def without_rows(data: bytes) -> bytes:
    """The first 20 of the 64 rows of a PNG file, packed anew, with all that belongs to such a file."""
    start, end = data.index(b"IDAT") - 4, data.index(b"IEND") - 4
    rows = zlib.decompress(data[start + 8 : end - 4])
    return data[:start] + chunk(b"IDAT", zlib.compress(rows[: 20 * len(rows) // 64])) + data[end:]


def bombs() -> dict[str, bytes]:
    """Small files whose headers promise more than 100,000,000 pixels; the PNG keeps its promise."""
    header = struct.pack(">IIBBBBB", 11_000, 11_000, 1, 0, 0, 0, 0)
    pixels = zlib.compress(bytes((1 + 11_000 // 8) * 11_000))
    jpeg = saved(Image.new("RGB", (64, 64)), "JPEG")
    gif, bmp = saved(Image.new("P", (64, 64)), "GIF"), saved(Image.new("RGB", (64, 64)), "BMP")
    return {
        "png": b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""),
        "jpg": patched(jpeg, jpeg.index(b"\xff\xc0") + 5, struct.pack(">HH", 60_000, 60_000)),
        "gif": patched(gif, 6, struct.pack("<HH", 60_000, 60_000)),
        "bmp": patched(bmp, 18, struct.pack("<ii", 60_000, 60_000)),
        "ppm": b"P6 60000 60000 255\n" + bytes(100),
    }


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
FRAMES = [halves(RED, BLUE), halves(BLUE, RED)]
CLEAR_RED, CLEAR_BLUE = (255, 0, 0, 0), (0, 0, 255, 128)
BEGINS_CLEAR = [halves(CLEAR_RED, CLEAR_RED, "RGBA"), halves((*RED, 255), (*BLUE, 255), "RGBA")]
HALF_BLUE = (127, 127, 255)
BGRA_RED, BGRA_BLUE = (0, 0, 255, 0), (255, 0, 0, 0)
WIDE = (512, 256)
CUT = "image file is truncated.*"

# fmt: off
ROWS = [
    Row("colour", "colour.png", file(halves(RED, BLUE)), WIDE, RED, BLUE),
    Row("colour", "colour.jpg", file(halves(RED, BLUE), "JPEG", quality=95), WIDE, RED, BLUE, off=2),
    Row("grey", "grey.png", file(halves(10, 200, "L")), WIDE, (10,) * 3, (200,) * 3),
    Row("grey", "grey.jpg", file(halves(10, 200, "L"), "JPEG", quality=95), WIDE, (10,) * 3, (200,) * 3, off=2),
    Row("one bit", "bit.png", file(halves(0, 1, "1")), WIDE, (0,) * 3, WHITE),
    Row("16-bit grey", "grey16.png", file(grey16(25_700, 65_535)), WIDE, (100,) * 3, WHITE),
    Row("palette", "palette.png", file(palette()), WIDE, RED, BLUE),
    Row("palette", "palette.gif", file(palette(), "GIF"), WIDE, RED, BLUE),
    Row("transparency", "palette-clear.png", file(palette(), transparency=0), WIDE, WHITE, BLUE),
    Row("transparency", "palette-clear.gif", file(palette(), "GIF", transparency=0), WIDE, WHITE, BLUE),
    Row("transparency", "rgba.png", file(halves(CLEAR_RED, CLEAR_BLUE, "RGBA")), WIDE, WHITE, HALF_BLUE),
    Row("transparency", "la.png", file(halves((0, 0), (0, 128), "LA")), WIDE, WHITE, (127,) * 3),
    Row("transparency", "colour-clear.png", file(halves(RED, BLUE), transparency=RED), WIDE, WHITE, BLUE),
    Row("transparency", "grey-clear.png", file(halves(7, 9, "L"), transparency=7), WIDE, WHITE, (9,) * 3),
    Row("transparency", "grey16-clear.png", file(grey16(0, 25_700), transparency=0), WIDE, WHITE, (100,) * 3),
    Row("unused alpha", "alpha-0.bmp", holding(bmp(np.asarray(halves(BGRA_RED, BGRA_BLUE, "RGBA")), header=108)),
        WIDE, RED, BLUE),
    Row("nothing visible", "clear.png", file(halves(CLEAR_RED, CLEAR_RED, "RGBA")), reason="invisible",
        detail="all of it is transparent"),
    Row("CMYK", "cmyk.jpg", file(halves((0, 255, 255, 0), (255, 255, 0, 0), "CMYK"), "JPEG", quality=95),
        WIDE, RED, BLUE, off=6),
    Row("animation", "moving.gif", file(FRAMES[0], "GIF", save_all=True, append_images=FRAMES[1:]), WIDE, RED, BLUE),
    Row("animation", "moving.webp", file(FRAMES[0], "WEBP", save_all=True, append_images=FRAMES[1:], lossless=True),
        WIDE, RED, BLUE),
    Row("animation", "begins-clear.gif", file(BEGINS_CLEAR[0], "GIF", save_all=True, append_images=BEGINS_CLEAR[1:]),
        reason="invisible", detail="all of it is transparent"),
    Row("animation", "begins-clear.webp", file(BEGINS_CLEAR[0], "WEBP", save_all=True, append_images=BEGINS_CLEAR[1:],
        lossless=True), reason="invisible", detail="all of it is transparent"),
    Row("animation", "phone.jpg", file(FRAMES[0], "MPO", save_all=True, append_images=FRAMES[1:], quality=95),
        WIDE, RED, BLUE, off=2),
    Row("EXIF orientation", "turned.jpg", file(halves(RED, BLUE), "JPEG", quality=95, exif=TURNED),
        WIDE, RED, BLUE, off=2),
    Row("EXIF orientation", "turned-on.jpg", file(halves(RED, BLUE), "JPEG", quality=95, exif=TURNED),
        (256, 512), RED, BLUE, off=2, exif=True),
    Row("EXIF orientation", "turned-on.png", file(halves((0, 0), (0, 128), "LA"), exif=TURNED),
        (256, 512), WHITE, (127,) * 3, exif=True),
    Row("tiny", "1x1.png", file(Image.new("RGB", (1, 1), BLUE)), (256, 256), BLUE, BLUE),
    Row("tiny", "3x2.png", file(Image.new("RGB", (3, 2), BLUE)), (384, 256), BLUE, BLUE),
    Row("tiny", "60x100.png", file(halves(RED, BLUE, size=(60, 100))), (256, 426), RED, BLUE),
    Row("long and thin", "20x5000.png", file(halves(RED, BLUE, size=(20, 5000))), (256, 64_000), RED, BLUE,
        encoding="png"),
    Row("long and thin", "1x5000.png", file(Image.new("RGB", (1, 5000))), reason="too_large",
        detail="1 x 5000 would become 256 x 1280000, 100000000 pixels allowed"),
    *(Row("huge", f"bomb.{kind}", holding(data), reason="too_large",
          detail="(11000 x 11000|more) pixels.* 100000000 allowed") for kind, data in bombs().items()),
    Row("cut off", "cut.jpg", holding(saved(NOISE, "JPEG")[:2000]), reason="truncated", detail=CUT),
    Row("cut off", "cut.png", holding(saved(NOISE, "PNG")[:2000]), reason="truncated", detail=CUT),
    Row("piece missing", "hole.jpg", holding(without_a_piece(saved(NOISE, "JPEG"), bytes(512))), reason="incomplete",
        detail="64 or more zero bytes stand where pixels should be"),
    Row("piece missing", "cut-and-closed.jpg", holding(saved(NOISE, "JPEG")[:2000] + b"\xff\xd9"),
        reason="incomplete", detail="Corrupt JPEG data: premature end of data segment"),
    Row("piece missing", "rows.png", holding(without_rows(saved(NOISE, "PNG"))), reason="incomplete",
        detail="its data end after 31 % of the pixels"),
    Row("damaged", "damaged.webp", holding(saved(NOISE, "WEBP")[:2000]), reason="damaged", detail=".+"),
    Row("values without a range", "float.ppm", holding(b"Pf\n2 2\n-1.0\n" + bytes(16)), reason="unsupported_mode",
        detail="Pillow's mode F has no fixed range of values"),
    Row("no bytes", "empty.jpg", holding(b""), reason="empty", detail="the file has 0 bytes"),
    Row("not a picture", "text.jpg", holding(b"<html>404 not found</html>"), reason="not_a_picture",
        detail="it is a web page. Fetch it again: .*"),
    Row("not a picture", "scan.tif", file(halves(RED, BLUE), "TIFF"), reason="not_a_picture",
        detail=r"it is TIFF\. Convert it to PNG\."),
    Row("names", "Kätzchen 猫 🐈.png", file(halves(RED, BLUE)), WIDE, RED, BLUE),
    Row("names", "n" * 246 + ".png", file(halves(RED, BLUE)), WIDE, RED, BLUE),
    Row("links", "link-outside.png", outside, WIDE, RED, BLUE),
    Row("links", "link-broken.png", link("nowhere.png"), reason="missing", detail="there is no such file"),
    Row("links", "link-loop.png", link("link-loop.png"), reason="unreadable", detail=os.strerror(errno.ELOOP)),
    Row("no file", "never-made.png", lambda path: None, reason="missing", detail="there is no such file"),
    Row("duplicates", "copy-1.png", file(halves(BLUE, RED)), WIDE, BLUE, RED),
    Row("duplicates", "copy-2.png", file(halves(BLUE, RED)), WIDE, BLUE, RED),
    Row("no permission", "secret.png", secret, reason="unreadable", detail=os.strerror(errno.EACCES)),
    Row("folder, pipe or device", "folder.jpg", Path.mkdir, reason="not_a_file", detail="it is a folder or a device"),
    Row("folder, pipe or device", "pipe.jpg", os.mkfifo, reason="not_a_file", detail="it is a folder or a device"),
]
# fmt: on


def source(row: Row, folder: Path) -> Source:
    path = folder / row.name
    row.make(path)
    return Source(row.name, str(path))


def pixels_are_right(row: Row, values: np.ndarray) -> bool:
    height, width, _ = values.shape
    found = values[[height // 8, -height // 8], [width // 8, -width // 8]].astype(int)
    return bool(np.abs(found - [row.first, row.last]).max() <= row.off)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name[:20])
def test_each_kind_of_file(row: Row, tmp_path, monkeypatch) -> None:
    (tmp_path / "pictures").mkdir()
    made = source(row, tmp_path / "pictures")
    if row.kind == "no permission" and os.geteuid() == 0:  # who reads every file: the system's answer to others

        def refused(self):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(Path, "read_bytes", refused)
    settings = ResizeSettings(exif=row.exif, shards=1, max_rejects=1)
    summary = write_resized(tmp_path / "out", [made], settings)
    assert summary.rejects == read_rejects(tmp_path / "out")
    kept = list(read_pictures(tmp_path / "out"))
    if row.reason is None:
        assert summary.rejects == []
        assert [(picture.width, picture.height, picture.encoding) for picture in kept] == [(*row.size, row.encoding)]
        assert pixels_are_right(row, kept[0].array())
    else:
        assert kept == []
        assert [(reject.image_id, reject.reason) for reject in summary.rejects] == [(row.name, row.reason)]
        assert re.fullmatch(row.detail, summary.rejects[0].detail)
        assert str(tmp_path) not in summary.rejects[0].detail


def test_the_table_and_the_page_for_users_agree(repository) -> None:
    page = (repository / "docs/features.md").read_text()
    kinds = page.split("## Kinds of files")[1].split("\n## ")[0]
    kinds_of_file = dict(re.findall(r"^\| ([^|]+?) \| (.+) \|$", kinds, re.MULTILINE))
    assert set(kinds_of_file) == {row.kind for row in ROWS} | {"kind of file"}
    for row in ROWS:
        assert row.reason is None or f"`{row.reason}`" in kinds_of_file[row.kind]
    assert {row.reason for row in ROWS} == {None, *get_args(Reason)}


def test_a_bomb_is_refused_before_any_pixel_is_decoded(monkeypatch) -> None:
    class ReachedError(BaseException):
        pass

    def load(self):
        raise ReachedError

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    for data in bombs().values():
        with pytest.raises(RejectError, match="too_large"):
            decode(data, exif=True, max_pixels=100_000_000)
    with pytest.raises(ReachedError):
        decode(saved(NOISE, "PNG"), exif=True, max_pixels=100_000_000)
