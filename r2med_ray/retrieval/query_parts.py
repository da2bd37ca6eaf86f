"""Queries in parts, each encoded on its own, for retrievers whose parts aren't one vector.

The parts are those of `query_construction` under `compat: none`: the published protocol knows no such retriever.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from r2med_ray.retrieval.query_construction import dense_query
from r2med_ray.types import Document, Query

T = TypeVar("T")


def encode_parts(
    queries: Sequence[Query],
    encode_queries: Callable[[Sequence[str]], Sequence[T]],
    encode_documents: Callable[[Sequence[Document]], Sequence[T]],
) -> list[list[T]]:
    """Return what became of each query's parts: the query first, then the texts that a rewriter wrote for it.

    Args:
        queries: with their expansions.
        encode_queries: asked once for all parts that are read as queries.
        encode_documents: asked once for all parts that are read as documents, if there are any.
    """
    parts = [dense_query(query, "none", "none") for query in queries]
    flat = [part for of_query in parts for part in of_query]
    texts = [part.text for part in flat if part.prompt == "query"]
    documents = [Document(doc_id="", text=part.text) for part in flat if part.prompt == "document"]
    asked = iter(encode_queries(texts))
    told = iter(encode_documents(documents) if documents else ())
    return [[next(asked if part.prompt == "query" else told) for part in of_query] for of_query in parts]
