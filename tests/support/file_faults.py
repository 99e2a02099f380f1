"""Faults of files: of bytes, of text, and of what the format of a file says, by the end of the file's name."""

from __future__ import annotations

import contextlib
import copy
import gzip
import io
import json
import random
import stat
import struct
import tarfile
import warnings
import zipfile
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

HUGE, DEEP = 1 << 40, 100_000
ODD = (
    *(None, True, False, 0, -1, 2**31, 2**63, 2**70, 10**400, -0.0, 0.5, 1e308, float("nan"), float("-inf"), "", " "),
    *("x" * 300, "x" * 50_000, "a\0b", "\ud800", "é", "../x", "/etc/passwd", "1e400", "null", [], [[]], {}, {"": None}),
    *(["a", 1], {"a": {"b": [1]}}, "0" * 64, "2020-01-01", "%s{0}", "\u2028", "C:\\x"),
)
"""Values in place of others."""
NESTED = (
    *("[" * deep + "]" * deep for deep in (900, DEEP)),
    *('{"a":' * deep + "1" + "}" * deep for deep in (900, DEEP)),
)
PIECES = (
    *(b"\0", b"\xff", b'"', b"\t", b",", b"\r", b"\n", b"\r\n", b" ", b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf"),
    *(b"nan", b"inf", b"1_0", b"-1", b"-0", b"9" * 30, b"9" * 5000, b"1e999", b"1e400", b"[" * 2000, b'{"a":' * 2000),
    *(b"\\ud800", b"\xed\xa0\x80", b"x" * 200_000, b"../", b"%s", b"null", b"true", b"@", b'"' * 3, b"a," * 3000),
    *(b"&a [*a]", b"!!python/object:os.x {}", b"<<: *b", b"!!int x", b"? {a: b}", b"<<<<<<< a\n", b"---\n", b"\x1a"),
)
"""Bytes put into a text."""
NAMES = (
    *("../x", "/x", "a/../../x", "C:\\x", "a\\..\\..\\x", "x" * 300, "y/" * 2000 + "z", "", ".", "..", "a\nb", "a\0b"),
    *("a/1.json", "train-000.tar", "\udcff", "a//b", "./a", "-rf", "CON", "~/x", "a"),
)
"""Names of members of archives."""


def faulty(name: str, data: bytes, draw: random.Random) -> bytes:
    """Return the bytes of a file with one to three faults, of which two in three are of the format's structure."""
    if name.endswith(".gz"):
        inner = draw.randrange(3) and faulty(name[:-3], gzip.decompress(data), draw)
        return gzip.compress(inner, 1, mtime=0) if isinstance(inner, bytes) else of_bytes(data, draw)
    of_format = FORMATS.get(name.rpartition(".")[2].lower(), of_text)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        with contextlib.suppress(Exception):  # after a fault of bytes the structure may be gone
            data = (of_format if draw.randrange(3) else of_bytes)(data, draw)
    return data


def of_bytes(data: bytes, draw: random.Random) -> bytes:
    """Change, remove, repeat or exchange bytes, or raise a number among them."""
    at, other, length = draw.randrange(len(data) + 1), draw.randrange(len(data) + 1), draw.choice((1, 2, 8, 40, 512))
    form = draw.choice(("<I", "<Q", ">I", ">Q"))
    number = draw.choice((HUGE, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)) % 2 ** (8 * struct.calcsize(form))
    low, high = sorted((at, other))
    flipped = bytearray(data)
    if data:
        flipped[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return draw.choice((
        data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :],
        bytes(flipped),
        data[:at],
        data[:at] + data[at + length :],
        data[: at + length] + data[at:],
        data[:low] + data[high : high + length] + data[low + length : high] + data[low : low + length] + data[high:],
        data[:at] + bytes(length) + data[at + length :],
        data[:at] + struct.pack(form, number) + data[at + struct.calcsize(form) :],
        data + draw.choice((b"\0", data[-length:], bytes(1024), draw.randbytes(60))),
    ))  # fmt: skip


def of_text(data: bytes, draw: random.Random) -> bytes:
    """Change lines, cells or the encoding of a text."""
    rows, at = data.split(b"\n"), draw.randrange(len(data) + 1)
    one, other, cut = draw.randrange(len(rows)), draw.randrange(len(rows)), draw.choice((b"\t", b",", b" "))
    cells = rows[one].split(cut)
    match draw.randrange(13):
        case 0:
            rows[one], rows[other] = rows[other], rows[one]
        case 1:
            rows.insert(one, draw.choice((rows[0], rows[other], b"", b" " * 9)))
        case 2:
            del rows[one]
        case 3:
            draw.choice((cells.reverse, cells.pop, lambda: cells.append(b"x"), lambda: cells.insert(0, cells[-1])))()
            rows[one] = cut.join(cells)
        case 4:
            cells[draw.randrange(len(cells))] = str(draw.choice(ODD)).encode("utf-8", "surrogatepass")
            rows[one] = cut.join(cells)
        case 5:
            return draw.choice((data.replace(b"\n", b"\r"), data.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + data))
        case 6:
            return data.decode().encode(draw.choice(("utf-16", "utf-16-le", "utf-32", "utf-7", "cp037")))
        case 7:
            return data.replace(cut, draw.choice((b";", b"|", b"\t", b",", b" ,", b'","')))
        case 8:
            return draw.choice((b"", b"\n", b" ", data * 300, b"[" * DEEP, b"\n" * 70_000, rows[0] + b"\n"))
        case _:
            return data[:at] + draw.choice(PIECES) + data[at:]
    return b"\n".join(rows)


def changed(value: Any, draw: random.Random) -> Any:
    """Return a tree of values in which a member is replaced, removed, doubled or exchanged with another."""
    top = [copy.deepcopy(value)]
    places: list[tuple[Any, Any]] = []

    def walk(container: Any) -> None:
        for key in [*container] if isinstance(container, dict) else range(len(container)):
            places.append((container, key))
            if isinstance(container[key], dict | list):
                walk(container[key])

    walk(top)
    (container, key), (other, there) = draw.choice(places), draw.choice(places)
    match draw.randrange(7):
        case 0 | 1 | 2:
            container[key] = draw.choice(ODD)
        case 3:
            del container[key]
        case 4:
            container[key], other[there] = other[there], copy.deepcopy(container[key])
        case 5:
            container[key] = draw.choice(([container[key]], {"a": container[key]}, str(container[key])))
        case _ if isinstance(container, dict):
            names = "", "x" * 5000, "a\0b", f"{key} ", str(key).upper(), "é", "\udc80"
            container[draw.choice(names)] = container[key]
        case _:
            container.append(container[key])
    return top[0] if top else draw.choice(ODD)


def json_text(value: Any, draw: random.Random) -> bytes:
    """Return the JSON of a value, of which one in five has a key twice and one an odd or a deep value."""
    kind = draw.randrange(5)
    text = json.dumps(value, ensure_ascii=bool(draw.randrange(4)))
    ends = [at for at, sign in enumerate(text) if sign in ":,"]
    if kind == 0 and ends:
        at = draw.choice(ends) + 1
        end = next((one for one in ends if one >= at), len(text) - 1)
        text = text[:at] + draw.choice((*NESTED, "1e400", "-0", "9" * 5000, "NaN", '"\\ud800"')) + text[end:]
    elif kind == 1 and (key := text.partition("{")[2].partition(":")[0]).startswith('"'):
        text = text.replace("{", f"{{{key}: 1, ", 1)
    return text.encode("utf-8", "surrogatepass")


def of_json(data: bytes, draw: random.Random) -> bytes:
    """Change a value of a JSON document, or its text."""
    return json_text(changed(json.loads(data), draw), draw) if draw.randrange(5) else of_text(data, draw)


def of_json_lines(data: bytes, draw: random.Random) -> bytes:
    """Change a value of a line of JSON, or the lines."""
    rows = data.split(b"\n")
    at = draw.randrange(len(rows) - 1)
    if draw.randrange(3) == 0:
        return of_text(data, draw)
    rows[at] = json_text(changed(json.loads(rows[at]), draw), draw)
    return b"\n".join(rows)


def of_yaml(data: bytes, draw: random.Random) -> bytes:
    """Change a value of a YAML document, or its text."""
    if draw.randrange(3) == 0 or b"[" * 50 in data or b'{"a":' * 50 in data:  # libyaml ends on deep values
        return of_text(data, draw)
    value = changed(yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), draw)
    text = yaml.dump(value, allow_unicode=True, sort_keys=False) if draw.randrange(3) else ""
    return text.encode("utf-8", "surrogatepass") or json_text(value, draw)


def of_safetensors(data: bytes, draw: random.Random) -> bytes:
    """Change the header of a safetensors file."""
    size = struct.unpack("<Q", data[:8])[0]
    head = json_text(changed(json.loads(data[8 : 8 + size]), draw), draw)
    stated = draw.choice((len(head), len(head), len(head), len(head) - 1, len(head) + 8, HUGE, 2**63))
    return struct.pack("<Q", stated) + head + data[8 + size :]


def of_npy(data: bytes, draw: random.Random) -> bytes:
    """Write an array with another header, or of another kind."""
    kind = draw.choice(("<f8", ">f4", "<f2", "<i4", "?", "<c8", "S3", "<U2", "<M8[s]", "O", "f4,i4"))
    shape = draw.choice(((2, 3), (2, 3), (0, 3), (2, 0), (6,), (), (1, 2, 3)))
    if draw.randrange(2):
        out = io.BytesIO()
        values = np.full(shape, draw.choice((1, np.nan, np.inf, 1e300))).astype(kind)
        np.lib.format.write_array(out, values, allow_pickle=True)
        return out.getvalue()
    shapes = (b"(2, 1099511627776)", b"(1099511627776, 3)", b"(-2, -3)", b"(2, 3, )", b"2", b"(2, True)")
    texts = (b"'<f4'", b"'|O'", b"'<V8'", b"None", b"[('a', '<f4')]", b"'<f999'", b"((" * 60)
    head = data.replace(b"(2, 3)", draw.choice(shapes)).replace(b"'<f4'", draw.choice((b"'<f4'", *texts)))
    return head.replace(b"False", draw.choice((b"False", b"True", b"None", b"7")))


def of_h5(data: bytes, draw: random.Random) -> bytes:
    """Write an HDF5 file with another attribute, or a table of another kind, size or name."""
    out = io.BytesIO()
    with h5py.File(io.BytesIO(data)) as read, h5py.File(out, "w", userblock_size=512) as written:
        values = {**read.attrs, draw.choice([*read.attrs]): draw.choice(ODD[:20])}
        tables = {name: table[()] for name, table in read.items()}
        name = draw.choice(sorted(tables))
        if draw.randrange(2):
            one = tables.pop(name)
            kinds = (one[:0], one[:1], one[None], one.astype("S3"), np.resize(one, 0x10000), [], 5, one.tolist(), "x")
            tables[draw.choice((name, name, name, "x" * 5000, "é"))] = draw.choice(kinds)
        for key, value in values.items():
            with contextlib.suppress(TypeError, ValueError, OverflowError):  # of a kind that HDF5 does not have
                written.attrs[key] = value
        for key, table in tables.items():
            written.create_dataset(
                key, data=table, chunks=True if np.size(table) > 1 and draw.randrange(4) == 0 else None
            )
        if draw.randrange(4) == 0:
            del written[name]
            written.create_dataset(name, (HUGE, 16), "<f4", chunks=(4, 4))
    return out.getvalue()


def of_parquet(data: bytes, draw: random.Random) -> bytes:
    """Write a table with another column, type, order or name, or with odd values."""
    table = pq.read_table(pa.BufferReader(data))
    at, rows = draw.randrange(table.num_columns), table.num_rows
    name, column = table.column_names[at], table.column(at)
    one = column[0].as_py()
    values = (
        *(None, one, draw.choice(ODD[:17]), "x" * 100_000, b"\xff\xfe", [one], {"a": one}, ["a"] * 20_000, "\0", []),
        *(
            {"bytes": b"x", "path": "../x"},
            2**62,
            -1,
            '["a", [[1]]]',
            '["a", ' + "[" * DEEP + '"]',
            "../x",
            "https://a",
        ),
    )
    kinds = pa.binary(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.float64(), pa.null()
    match draw.randrange(7):
        case 0 | 1 | 2:
            kind = column.type if draw.randrange(2) else None
            table = table.set_column(at, name, pa.array([draw.choice(values)] * rows, kind))
        case 3:
            table = table.drop_columns([name])
        case 4:
            table = table.append_column(draw.choice((name, "x" * 5000, "", "a.b", "split")), column)
        case 5:
            table = draw.choice((table.slice(0, 0), pa.concat_tables([table] * 3), table.slice(0, 1)))
        case _:
            table = table.set_column(at, name, column.cast(draw.choice(kinds)))
    out = io.BytesIO()
    pq.write_table(table, out, compression=draw.choice(("zstd", "none", "gzip")))
    return out.getvalue()


def of_tar(data: bytes, draw: random.Random) -> bytes:
    """Write the members of a tar again, with others that no honest writer makes."""
    out, form = io.BytesIO(), draw.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(fileobj=io.BytesIO(data)) as read, tarfile.open(fileobj=out, mode="w", format=form) as written:
        members = [(one, (read.extractfile(one) or io.BytesIO()).read()) for one in read]
        at = draw.randrange(len(members))
        member, body = members[at]
        match draw.randrange(8):
            case 0:
                member.name = draw.choice(NAMES)
            case 1:
                member.type, member.linkname = bytes([draw.choice(b"123456789SLKXgxNVD\0")]), draw.choice(NAMES)
            case 2:
                members.insert(draw.randrange(len(members)), (member, body))
            case 3:
                keys = "path", "size", "GNU.sparse.size", "GNU.sparse.map", "GNU.sparse.major", "mtime", "x"
                values = "-1", str(HUGE), "x" * 5000, "a/b", "1,2,3", "nan", "", "1"
                member.pax_headers = {draw.choice(keys): draw.choice(values)}
            case 4:
                bodies = b"", b"[" * DEEP, b'{"caption": 1e400}', b"\xff", body * 3, of_bytes(body, draw)
                members[at] = member, draw.choice(bodies)
            case 5:
                long = tarfile.TarInfo("././@LongLink")
                long.type, long.size = draw.choice((b"L", b"K", b"x", b"g")), 1
                out.write((long.tobuf(tarfile.GNU_FORMAT) + b"a".ljust(512, b"\0")) * 5000)
            case 6:
                member.size = draw.choice((HUGE, 8**11 - 1, len(body) + 512, 2**63))
                out.write(member.tobuf(tarfile.GNU_FORMAT))
            case _:
                members = members[:at]
        for member, body in members:
            member.size = len(body)
            with contextlib.suppress(ValueError):
                written.addfile(member, io.BytesIO(body))
    return out.getvalue()


def of_zip(data: bytes, draw: random.Random) -> bytes:
    """Write the members of a zip again, with others that no honest writer makes."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as read, zipfile.ZipFile(out, "w") as written, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that is there twice
        for info in read.infolist():
            body = read.read(info)
            match draw.randrange(7):
                case 0:
                    info.filename = info.orig_filename = draw.choice(NAMES)
                case 1:
                    info.external_attr = draw.choice((stat.S_IFLNK, stat.S_IFIFO, stat.S_IFBLK, 0)) << 16
                    body = draw.choice((b"../../x", b"/etc/passwd", body))
                case 2:
                    info.compress_type, body = draw.choice((8, 12, 14)), draw.choice((body, bytes(5_000_000)))
                case 3:
                    written.writestr(copy.copy(info), body)
                case 4:
                    info.extra = draw.choice(
                        (b"\1\0\x08\0" + struct.pack("<Q", HUGE), b"\1\0\xff\xff", b"up\5\0\1abcd")
                    )
            written.writestr(info, body)
    packed = bytearray(out.getvalue())
    if draw.randrange(3) == 0:  # in the central directory: flags, method, sizes, names, offsets
        at = packed.rfind(b"PK\1\2") + draw.choice((6, 8, 10, 16, 20, 24, 28, 30, 42))
        packed[at : at + 2] = draw.choice((b"\xff\xff", b"\1\0", b"\x63\0", b"\0\0"))
    return bytes(packed)


FORMATS = {
    "json": of_json, "jsonl": of_json_lines, "yaml": of_yaml, "lock": of_yaml, "dvc": of_yaml, "npy": of_npy,
    "safetensors": of_safetensors, "parquet": of_parquet, "tar": of_tar, "zip": of_zip, "h5": of_h5,
    **dict.fromkeys(("pth", "png", "jpeg", "gif", "bmp", "webp", "avif", "jpeg2000", "ppm"), of_bytes),
}  # fmt: skip
"""What changes the structure of a file, by the end of its name; a text is the rest."""
