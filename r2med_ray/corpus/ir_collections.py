"""Collections of the `ir_datasets` package, addressed like files.

An address is `ir_datasets:/<dataset id>/<docs|queries|qrels>`. The package (MacAvaney et al., SIGIR 2021) fetches and
unpacks hundreds of collections by id, e.g. `vaswani` or `beir/nfcorpus/test`. A text is the record's
`default_text()`: the package's own choice of fields, after the title if there is one.
"""

import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from r2med_ray.errors import ConfigError, DataError, NotAtHand
from r2med_ray.settings.registry import nearest
from r2med_ray.storage.jsonl import Record

SCHEME = "ir_datasets:"

_VALUES: Mapping[str, Callable[[Any], dict[str, object]]] = {
    "docs": lambda doc: {"_id": doc.doc_id, "text": doc.default_text()},
    "queries": lambda query: {"_id": query.query_id, "text": query.default_text()},
    "qrels": lambda qrel: {"query-id": qrel.query_id, "corpus-id": qrel.doc_id, "score": qrel.relevance},
}


def address(dataset_id: str) -> Path:
    """Return the address of a dataset, which is used in place of a folder.

    Raises:
        NotAtHand: the package is not installed.
        ConfigError: the package doesn't know the dataset, or the dataset lacks documents, queries or qrels.
    """
    dataset = _load(dataset_id)
    missing = [kind for kind in _VALUES if not getattr(dataset, f"has_{kind}")()]
    if missing:
        raise ConfigError(
            f"ir_datasets {dataset_id!r} has no {' and no '.join(missing)}; a task needs docs, queries and qrels, "
            "which most collections have below a split, e.g. `beir/nfcorpus/test`"
        )
    return Path(SCHEME, dataset_id)


def is_address(path: Path) -> bool:
    return path.parts[:1] == (SCHEME,)


def read_entries(path: Path) -> Iterator[Record]:
    """Yield the records of an address with the field names of BEIR; `line` counts from 1.

    Raises:
        DataError: the package can't fetch or read the records.
    """
    dataset_id, kind = "/".join(path.parts[1:-1]), path.name
    dataset = _load(dataset_id)
    try:
        for number, entry in enumerate(getattr(dataset, f"{kind}_iter")(), start=1):
            yield Record(path, number, _VALUES[kind](entry))
    except (
        OSError,
        RuntimeError,
        ValueError,
        EOFError,
        zlib.error,
        lzma.LZMAError,
    ) as error:  # the last three: damage
        raise DataError(
            f"{path}: ir_datasets can't give these records: {error}. `ir_datasets export {dataset_id} {kind}` shows "
            "what is missing; files that were fetched are in $IR_DATASETS_HOME"
        ) from error


def digest_of(path: Path) -> str:
    """Return the SHA-256 of the records of an address. All records are read for it."""
    digest = hashlib.sha256()
    for record in read_entries(path):
        digest.update(repr(sorted(record.values.items())).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _load(dataset_id: str) -> Any:
    try:
        import ir_datasets  # an extra
    except ImportError as error:
        raise NotAtHand(
            "the ir_datasets package",
            "layout `ir_datasets` needs a package that is not installed: pip install 'r2med-ray[ir-datasets]'",
        ) from error
    try:
        return ir_datasets.load(dataset_id)
    except KeyError as error:
        raise ConfigError(
            f"ir_datasets has no {dataset_id!r}.{nearest(dataset_id, ir_datasets.registry)} "
            "`ir_datasets list` shows all"
        ) from error
