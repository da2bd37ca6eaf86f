"""What a retriever is asked, given a query q and the texts h that a rewriter wrote for it.

| compat | method     | writer    | BM25                      | vectors, averaged with equal weights       |
|--------|------------|-----------|---------------------------|--------------------------------------------|
| none   | query2doc  | any       | q × n, h                  | query(q, newline, h)                       |
| none   | all others | any       | q × n, h                  | query(q), document(h)                      |
| r2med  | any        | reasoning | h                         | query(q), h with the row's expansion prompt|
| r2med  | query2doc  | plain     | q q without a blank, h    | query(q `[SEP]` h), the six letters        |
| r2med  | lamer      | plain     | q, h                      | query(q), h with the row's expansion prompt|
| r2med  | all others | plain     | h                         | query(q), h with the row's expansion prompt|

Parts of a text are joined by a blank unless the table says otherwise. A query without texts is asked as it is.

`r2med` is the published protocol (R2MED repository at 62b7074: eval_BM25.py:129, eval_retrieval.py:42, base.py).

By default the query stands first and keeps some weight beside a long text: n is MuGI's adaptive repetition, a fifth
of the length of h over that of q (Zhang et al. 2024, arXiv 2401.06311). For R2MED's long questions that is 1, where
Query2doc's fixed 5 (Wang et al. 2023, arXiv 2303.07678) would drown the text. A hypothetical document is embedded as
a document and averaged with the query (HyDE, Gao et al. 2023, arXiv 2212.10496); Query2doc embeds one joined text.

Shape letters: Q queries, P parts of all queries, D embedding size.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.errors import DataError
from r2med_ray.protocols import Encoder
from r2med_ray.types import Combine, Compat, Document, Expansion, FloatMatrix, Query

Prompt: TypeAlias = Literal["query", "document", "none"]
ExpansionPrompt: TypeAlias = Literal["query", "none"]

JOINED = "query2doc"
CHARACTERS_PER_REPEAT = 5
"""MuGI's ratio of generated text to repeated query."""


class QueryPart(NamedTuple):
    """A text that is embedded on its own; a query's vector is the mean of its parts' vectors."""

    text: str
    prompt: Prompt


def searches_of(queries: Sequence[Query], combine: Combine) -> tuple[tuple[Query, ...], ...]:
    """Return the sets of queries that a system searches with: one, or under `rrf` one per text.

    The i-th search asks with each query's i-th text; a query that has fewer texts takes part as it is.
    """
    texts = max((len(query.expansions) for query in queries), default=0)
    if combine == "mean" or texts < 2:
        return (tuple(queries),)
    return tuple(
        tuple(replace(query, expansions=query.expansions[place : place + 1]) for query in queries)
        for place in range(texts)
    )


def lexical_query(query: Query, compat: Compat) -> str:
    """Return the text that BM25 is asked."""
    if not query.expansions:
        return query.text
    if compat == "r2med":
        return _published_lexical_query(query.text, _only(query))
    texts = " ".join(expansion.text for expansion in query.expansions)
    repeats = max(1, len(texts) // (CHARACTERS_PER_REPEAT * max(1, len(query.text))))
    return " ".join([*[query.text] * repeats, texts])


def dense_query(query: Query, compat: Compat, expansion_prompt: ExpansionPrompt) -> tuple[QueryPart, ...]:
    """Return the parts whose vectors are averaged.

    Args:
        query: with its expansions.
        compat: which half of the table holds.
        expansion_prompt: what the model's row gives a generated text under `r2med`.
    """
    if not query.expansions:
        return (QueryPart(query.text, "query"),)
    if compat == "r2med":
        expansion = _only(query)
        if expansion.method == JOINED and not expansion.reasoning:
            return (QueryPart(f"{query.text}[SEP]{expansion.text}", "query"),)
        return QueryPart(query.text, "query"), QueryPart(expansion.text, expansion_prompt)
    joined = [expansion.text for expansion in query.expansions if expansion.method == JOINED]
    apart = [expansion.text for expansion in query.expansions if expansion.method != JOINED]
    return QueryPart("\n".join([query.text, *joined]), "query"), *(QueryPart(text, "document") for text in apart)


def prepare_dense(
    queries: Sequence[Query],
    encoder: Encoder,
    *,
    compat: Compat,
    expansion_prompt: ExpansionPrompt,
    cosine: bool,
) -> FloatMatrix:
    """Embed queries: one call of the encoder per prompt, then the mean of each query's parts.

    For cosine, parts count alike however long their vectors are, except under `r2med`, which averages what the
    encoder returns; the mean has unit length either way. A vector of zeros stays one.

    Returns:
        float32, shape (Q, D), row i for queries[i].

    Raises:
        DataError: a vector is not finite, or the encoder returned another number of them; names the query.
    """
    parts = [dense_query(query, compat, expansion_prompt) for query in queries]
    owners_P = np.array([row for row, of_query in enumerate(parts) for _ in of_query], dtype=np.intp)
    vectors_PD = _encode([part for of_query in parts for part in of_query], encoder)
    bad_P = ~np.isfinite(vectors_PD).all(axis=1)
    if bad_P.any():
        query_id = queries[owners_P[bad_P][0]].query_id
        raise DataError(f"query {query_id!r}: its vector is not finite; every component must be a finite number")
    if cosine and compat == "none":
        vectors_PD = _unit(vectors_PD)
    means_QD = np.zeros((len(queries), encoder.dim))
    np.add.at(means_QD, owners_P, vectors_PD)
    means_QD /= np.bincount(owners_P, minlength=len(queries))[:, np.newaxis]
    return (_unit(means_QD) if cosine else means_QD).astype(np.float32)


def _published_lexical_query(text: str, expansion: Expansion) -> str:
    if expansion.reasoning or expansion.method not in ("query2doc", "lamer"):
        return expansion.text
    return f"{text * (2 if expansion.method == 'query2doc' else 1)} {expansion.text}"


def _only(query: Query) -> Expansion:
    if len(query.expansions) != 1:
        raise DataError(
            f"query {query.query_id!r} has {len(query.expansions)} expansions; the published protocol knows one"
        )
    return query.expansions[0]


def _encode(parts: Sequence[QueryPart], encoder: Encoder) -> npt.NDArray[np.float64]:
    """Return float64 of shape (P, D), row i for parts[i]."""
    vectors_PD = np.zeros((len(parts), encoder.dim))
    for prompt in ("query", "document", "none"):
        rows = [row for row, part in enumerate(parts) if part.prompt == prompt]
        if not rows:
            continue
        texts = [parts[row].text for row in rows]
        if prompt == "query":
            encoded = encoder.encode_queries(texts)
        elif prompt == "document":
            encoded = encoder.encode_documents([Document(doc_id=str(row), text=parts[row].text) for row in rows])
        else:
            encoded = encoder.encode_plain(texts)
        if encoded.shape != (len(rows), encoder.dim):
            raise DataError(f"the encoder returned shape {encoded.shape} for {len(rows)} texts of size {encoder.dim}")
        vectors_PD[rows] = encoded
    return vectors_PD


def _unit(vectors_ND: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return vectors_ND / np.where(lengths_N1 > 0, lengths_N1, 1.0)
