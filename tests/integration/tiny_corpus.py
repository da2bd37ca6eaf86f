"""A tiny corpus in shards of three documents and a search over it, which Ray's processes can import."""

from collections.abc import Sequence
from typing import Any

from r2med_ray.corpora import CorpusShard
from r2med_ray.protocols import Index
from r2med_ray.types import Document, Query
from tests.fakes import WordCountEncoder, WordCountIndex

WORDS = ["cat", "dog", "mat", "bird"]


def documents(count: int) -> list[Document]:
    return [Document(doc_id=f"d{number}", text=WORDS[number % 4] + " cat" * (number % 3)) for number in range(count)]


def shards(count: int) -> list[CorpusShard]:
    return [CorpusShard(index=i, path="", start_row=3 * i, num_rows=3, digest="") for i in range(count)]


def index_of(*shards: CorpusShard) -> Index[Any]:
    """Return one index of the documents of all these shards."""
    texts = [each for shard in shards for each in documents(shard.start_row + shard.num_rows)[shard.start_row :]]
    return WordCountIndex(WordCountEncoder(*WORDS), texts)


def prepare(queries: Sequence[Query]) -> object:
    return WordCountEncoder(*WORDS).encode_queries([query.text for query in queries])
