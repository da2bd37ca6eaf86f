"""FAISS factory strings, and how much of an approximate index a search looks at if the string doesn't say it.

FAISS itself looks at one cell of an inverted file, however many cells there are. A ranking is then short, and most of
what belongs there is missing.
"""

import re

from r2med_ray.errors import ConfigError

EXACT = "Flat"

LEAST_CELLS = 16
SHARE_OF_CELLS = 2
"""An inverted file of n cells is searched in n / 2 cells, and in no fewer than 16. On MED (1,033 documents, MiniLM,
64 cells), one cell holds 0.21 of the 100 documents that exact search finds, a quarter of the cells 0.89, and half of
them 0.98. On the first 2,000 documents of NFCorpus these are 0.15, 0.77 and 0.93."""

GRAPH_EXPLORED = 256
"""Nodes that the search of an HNSW graph keeps in view. On MED, FAISS's 16 find 0.86 of the 100 documents, and 128
find all of them."""

_CELLS = re.compile(r"(?:^|,)IVF(\d+)([kM]?)")
_MULTI_INDEX = re.compile(r"(?:^|,)IMI2x\d+")
_GRAPH = re.compile(r"(?:^|,)HNSW")
_UNITS = {"": 1, "k": 1024, "M": 1024**2}


def with_search_parameters(factory: str) -> str:
    """Return a factory string that says how much of its index is searched.

    `IVF64,Flat` becomes `IVF64,Flat;nprobe=32`, and `HNSW32` becomes `HNSW32;efSearch=256`. What the string says
    itself stays as it is.

    Raises:
        ConfigError: the index has cells, and nothing tells how many of them are a good share.
    """
    description, _, parameters = factory.partition(";")
    given = [parameter.strip() for parameter in parameters.split(",") if parameter.strip()]
    names = {parameter.partition("=")[0].strip() for parameter in given}
    if _MULTI_INDEX.search(description) and "nprobe" not in names:
        raise ConfigError(
            f"index {factory!r} doesn't say how many of its cells are searched, and FAISS would search one; write "
            f"'{description};nprobe=N'"
        )
    cells = _CELLS.search(description)
    if cells and "nprobe" not in names:
        given.append(f"nprobe={_searched_cells(int(cells[1]) * _UNITS[cells[2]])}")
    if _GRAPH.search(description) and "efSearch" not in names:
        given.append(f"efSearch={GRAPH_EXPLORED}")
    return ";".join([description.strip(), *([",".join(given)] if given else [])])


def _searched_cells(cells: int) -> int:
    return min(cells, max(LEAST_CELLS, -(-cells // SHARE_OF_CELLS)))
