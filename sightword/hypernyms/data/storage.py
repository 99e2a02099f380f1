"""The folder that the stage taxonomy writes: concepts, edges, pairs, and the counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sightword.errors import FileFormatError
from sightword.hypernyms.data.pairs import REPLACED, ConceptPairs
from sightword.hypernyms.data.taxonomy import Taxonomy, depths
from sightword.io.files import Pathish, read_table, write_table
from sightword.io.saved import Format
from sightword.settings import SPLITS

TODO = "Run `make hypernyms` (without make: `rm -f hypernyms/.dvcignore && dvc repro hypernyms/dvc.yaml`)."
FORMAT = Format("taxonomy.json", 2, TODO, FileFormatError)
_TABLES = ("concepts.parquet", "edges.parquet", "pairs.parquet")


@dataclass(frozen=True)
class Prepared:
    """A taxonomy with its splits."""

    taxonomy: Taxonomy
    depth: np.ndarray[tuple[int], np.dtype[np.int32]]
    """The least number of edges from each concept to a root."""
    pairs: dict[str, ConceptPairs]
    counts: dict[str, Any]


def write_prepared(
    folder: Pathish, taxonomy: Taxonomy, pairs: Mapping[str, ConceptPairs], counts: Mapping[str, Any]
) -> None:
    """Write ``concepts.parquet``, ``edges.parquet``, ``pairs.parquet`` and ``taxonomy.json`` into a folder."""
    place = Path(folder)
    ids = pa.array(range(len(taxonomy.names)), pa.int32())
    concepts = {"id": ids, "name": taxonomy.names, "words": taxonomy.words, "gloss": taxonomy.glosses}
    write_table(place / "concepts.parquet", pa.table({**concepts, "depth": depths(taxonomy)}))
    edges = {"hyponym": taxonomy.hyponyms, "hypernym": taxonomy.hypernyms, "relation": taxonomy.relations}
    write_table(place / "edges.parquet", pa.table(edges))
    codes = np.repeat(np.arange(len(SPLITS), dtype=np.int8), [len(pairs[name].labels) for name in SPLITS])
    columns = {
        name: np.concatenate([getattr(pairs[part], name) for part in SPLITS])
        for name in ConceptPairs.__dataclass_fields__
    }
    write_table(
        place / "pairs.parquet",
        pa.table(
            {
                "hyponym": columns["hyponyms"],
                "hypernym": columns["hypernyms"],
                "split": _names(codes, SPLITS),
                "label": columns["labels"],
                "direct": columns["direct"],
                "replaced": _names(columns["replaced"], REPLACED),
            }
        ),
    )
    FORMAT.write(place, counts, _TABLES)


def read_prepared(folder: Pathish) -> Prepared:
    """Read what :func:`write_prepared` wrote.

    Raises:
        FileFormatError: a file is missing, damaged, or of another schema.
    """
    place = Path(folder)
    counts, listed = FORMAT.read(place)
    FORMAT.require(listed, *_TABLES, where=place)
    concepts = read_table(place / "concepts.parquet", ("name", "words", "gloss", "depth"), todo=TODO)
    edges = read_table(place / "edges.parquet", ("hyponym", "hypernym", "relation"), todo=TODO)
    table = read_table(
        place / "pairs.parquet", ("hyponym", "hypernym", "label", "direct", "split", "replaced"), todo=TODO
    )
    names, words, glosses = (concepts[name].to_pylist() for name in ("name", "words", "gloss"))
    low, high = (edges[name].to_numpy() for name in ("hyponym", "hypernym"))
    taxonomy = Taxonomy(names, words, glosses, low, high, edges["relation"].to_pylist())
    low, high, labels, direct = (table[name].to_numpy() for name in ("hyponym", "hypernym", "label", "direct"))
    split = _codes(table["split"], SPLITS)
    every = ConceptPairs(low, high, labels, direct, _codes(table["replaced"], REPLACED))
    pairs = {name: every.where(split == code) for code, name in enumerate(SPLITS)}
    return Prepared(taxonomy, concepts["depth"].to_numpy(), pairs, counts)


def _names(codes: np.ndarray[tuple[int], np.dtype[np.int8]], names: tuple[str, ...]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes), list(names)).cast(pa.string())


def _codes(column: Any, names: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    import pyarrow.compute as pc

    codes: np.ndarray[tuple[int], np.dtype[np.int8]] = pc.index_in(column, pa.array(names)).to_numpy().astype(np.int8)
    return codes
