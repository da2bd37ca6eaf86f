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

TRAINING_PER_CELL = 40
LEAST_TRAINING = 65_536
"""FAISS wants at least 39 vectors for a cell of an inverted file. It takes at most 256 for each of the 256 entries of
a table of codes, which are 65,536 (`ClusteringParameters` of faiss/Clustering.h)."""

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
    description = description_of(factory)
    given = [parameter.strip() for parameter in parameters_of(factory).split(",") if parameter.strip()]
    names = {parameter.partition("=")[0].strip() for parameter in given}
    if _MULTI_INDEX.search(description) and "nprobe" not in names:
        raise ConfigError(
            f"index {factory!r} doesn't say how many of its cells are searched, and FAISS would search one; write "
            f"'{description};nprobe=N'"
        )
    cells = _CELLS.search(description)
    if cells and "nprobe" not in names:
        given.append(f"nprobe={_searched_cells(_number(cells))}")
    if _GRAPH.search(description) and "efSearch" not in names:
        given.append(f"efSearch={GRAPH_EXPLORED}")
    return ";".join([description, *([",".join(given)] if given else [])])


def description_of(factory: str) -> str:
    """Return a factory string without its search parameters, which change nothing of what is trained or stored."""
    return factory.partition(";")[0].strip()


def parameters_of(factory: str) -> str:
    """Return the search parameters of a factory string: `name=value,...`; empty if it has none."""
    return factory.partition(";")[2].strip()


def training_size(factory: str) -> int:
    """Return how many vectors an index is trained on, if there are as many."""
    cells = _CELLS.search(description_of(factory))
    return max(LEAST_TRAINING, TRAINING_PER_CELL * _number(cells) if cells else 0)


def _number(cells: re.Match[str]) -> int:
    return int(cells[1]) * _UNITS[cells[2]]


def _searched_cells(cells: int) -> int:
    return min(cells, max(LEAST_CELLS, -(-cells // SHARE_OF_CELLS)))
