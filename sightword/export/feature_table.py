"""Features of pictures as a data set for other programs: ``features.parquet`` and a data set card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from sightword.errors import FeaturesError
from sightword.features.tables.origin import describe
from sightword.features.tables.table import FeatureTable, Origin, read_blocks
from sightword.io.files import Pathish, atomic_folder, write_text

if TYPE_CHECKING:
    import pyarrow as pa

TABLE, CARD = "features.parquet", "README.md"
PROVENANCE = tuple(Origin.__dataclass_fields__)
"""The columns that say how the features were made, equal in all rows: the attributes of ``features.h5``."""
BLOCK = 1 << 24
"""Bytes of vectors in a row group, the most that is in memory."""
_SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def write_export(out: Pathish, features: Pathish, *, progress: bool = False) -> tuple[int, int]:
    """Write the folder of a data set, whole or not at all: Parquet by row groups, and the card of a model hub.

    The columns are ``id`` text, ``vector`` a list of D float32, ``sha256`` of the picture's file (empty if unknown),
    and :data:`PROVENANCE`, text.

    Args:
        out: the folder, which must not exist.
        features: a ``features.h5``.
        progress: show a progress bar on a terminal.

    Returns:
        The numbers of rows and of features of a picture.

    Raises:
        FeaturesError: the folder exists, or the features are wrong, as for
            :func:`sightword.features.tables.table.read_features`.
        FileFormatError: the file is missing or damaged.
    """
    import pyarrow.parquet as pq

    if Path(out).exists():
        raise FeaturesError("exists", where=out, todo="Name a new folder.")
    first = next(read_blocks(features, 1))
    count, width = first.attributes["rows"], first.features.shape[1]
    blocks = read_blocks(features, max(1, BLOCK // (4 * max(width, 1))))
    with (
        atomic_folder(out) as place,
        tqdm(total=count, desc=TABLE, unit="picture", disable=None if progress else True) as bar,
        pq.ParquetWriter(place / TABLE, schema(width), compression="zstd") as writer,
    ):
        for block in blocks:
            writer.write_table(_rows(block, width))
            bar.update(len(block.image_ids))
        write_text(place / CARD, _card(Path(out).name, first, width))
    return count, width


def schema(width: int) -> pa.Schema:
    """Return the columns of ``features.parquet``."""
    import pyarrow as pa

    texts = [(name, pa.string()) for name in ("sha256", *PROVENANCE)]
    return pa.schema([("id", pa.string()), ("vector", pa.list_(pa.float32(), width)), *texts])


def _rows(block: FeatureTable, width: int) -> pa.Table:
    import pyarrow as pa

    count = len(block.image_ids)
    vectors = pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(block.features).reshape(-1), width)
    made = [pa.repeat(str(block.attributes.get(name, "")), count) for name in PROVENANCE]
    return pa.table([block.image_ids, vectors, block.sha256, *made], schema=schema(width))


def _card(name: str, first: FeatureTable, width: int) -> str:
    about = first.attributes
    lost = len(first.rejected)
    return f"""\
---
pretty_name: "Features of pictures: {name}"
license: "other"
license_name: "terms-of-pictures-and-image-network"
tags: ["image-features", "sightword"]
size_categories: ["{_size(about["rows"])}"]
configs: [{{"config_name": "default", "data_files": "{TABLE}"}}]
---

# Features of {about["rows"]:,} pictures

A row a picture, sorted by `id`: {width:,} numbers of an image network.

| column | |
| --- | --- |
| `id` | the picture |
| `vector` | {width:,} float32 |
| `sha256` | of the picture's file; empty if unknown |
{"".join(_lines(about))}
Made by Sightword: {describe(about)}. Pictures that could not be decoded and have no row: {lost:,}.
The checksum of the `features.h5` it was made from is `{about["checksum"]}`.

```python
pandas.read_parquet("{TABLE}")  # or polars.read_parquet, duckdb.read_parquet
datasets.load_dataset("parquet", data_files="{TABLE}", split="train")
```

The features come from pictures and an image network, whose terms go with them.
"""


def _lines(about: Mapping[str, Any]) -> Iterator[str]:
    for name in PROVENANCE:
        value = str(about.get(name, "")).replace("|", "\\|")
        yield f"| `{name}` | in all rows {f'`{value}`' if value else 'empty'} |\n"


def _size(count: int) -> str:
    """Return the size in the words of the Hugging Face hub, such as ``1K<n<10K``."""
    words = ["1K", "10K", "100K", "1M", "10M"]
    place = sum(count >= size for size in _SIZES)
    if place == 0:
        return "n<1K"
    return f"n>{words[-1]}" if place == len(_SIZES) else f"{words[place - 1]}<n<{words[place]}"
