"""Encodes the parts of queries one by one, for retrievers that can't average them into one vector.

The parts are those of `query_construction` by the default rules: the published protocol knows no such retriever.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from r2med_ray.retrieval.query_construction import dense_query
from r2med_ray.settings.compat import Rules
from r2med_ray.types import Document, Query

T = TypeVar("T")


def encode_parts(
    queries: Sequence[Query],
    encode_queries: Callable[[Sequence[str]], Sequence[T]],
    encode_documents: Callable[[Sequence[Document]], Sequence[T]],
) -> list[list[T]]:
    """Return one list per query: what its parts were encoded to, the query first, then the texts beside it.

    Args:
        queries: the queries with their expansions.
        encode_queries: called once with all parts that are read as queries.
        encode_documents: called once with all parts that are read as documents, if there are any.
    """
    parts = [dense_query(query, Rules(), "none") for query in queries]
    flat = [part for of_query in parts for part in of_query]
    texts = [part.text for part in flat if part.prompt == "query"]
    documents = [Document(doc_id="", text=part.text) for part in flat if part.prompt == "document"]
    of_queries = iter(encode_queries(texts))
    of_documents = iter(encode_documents(documents) if documents else ())
    return [[next(of_queries if part.prompt == "query" else of_documents) for part in of_query] for of_query in parts]
