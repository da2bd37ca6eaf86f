"""What a retriever is asked, given a query q and a text h that a rewriter wrote for it.

The use of a text (`Expansion.use`) decides:

| use        | BM25      | vectors: the mean over the parts of a query, all of equal weight                |
|------------|-----------|---------------------------------------------------------------------------------|
| joined     | q × n, h  | query(q, newline, h), one text                                                  |
| averaged   | q × n, h  | query(q), document(h)                                                           |
| replaces   | h         | query(h)                                                                        |
| alone      | refused   | refused: `searches` makes a search of its own of the text, where it replaces q  |
| subtracted | refused   | refused: the same                                                               |

query(x) and document(x) are x with the model's prompt for queries or for documents. Parts of a text for BM25 are
joined by a space. A query without texts is asked as it is.

The published protocol asks otherwise, see `published_queries`.

By default the query stands first and keeps some weight beside a long text: n is MuGI's adaptive repetition, the
length of h over five times the length of q (Zhang et al. 2024, arXiv 2401.06311), or over the multiple that the text
names (`Expansion.per_repeat`; the lowest if texts differ). For R2MED's long questions n is 1, where Query2doc's fixed
5 (Wang et al. 2023, arXiv 2303.07678) would drown the text. A hypothetical document is embedded as a document and
averaged with the query (HyDE, Gao et al. 2023, arXiv 2212.10496). Query2doc embeds one joined text.

Shape letters: Q queries, P parts of all queries, D embedding size.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.errors import DataError
from r2med_ray.protocols import Encoder
from r2med_ray.retrieval.published_queries import only_text, published_lexical_query, use_under
from r2med_ray.settings.compat import Rules
from r2med_ray.types import Document, FloatMatrix, Query
from r2med_ray.vectors import unit_length

Prompt: TypeAlias = Literal["query", "document", "none"]
ExpansionPrompt: TypeAlias = Literal["query", "none"]


class QueryPart(NamedTuple):
    """A text that is embedded on its own; a query's vector is the mean of its parts' vectors."""

    text: str
    prompt: Prompt


def lexical_query(query: Query, rules: Rules) -> str:
    """Return the text that BM25 is asked.

    Raises:
        DataError: a text is for a search of its own, or the published protocol doesn't know such texts.
    """
    if not query.expansions:
        return query.text
    _require_shared(query)
    if rules.bm25_rewrite:
        return published_lexical_query(query, rules)
    replacing = [expansion.text for expansion in query.expansions if expansion.use == "replaces"]
    beside = " ".join(expansion.text for expansion in query.expansions if expansion.use != "replaces")
    if replacing:
        return " ".join([*replacing, *filter(None, [beside])])
    ratio = min(expansion.per_repeat for expansion in query.expansions)
    repeats = max(1, len(beside) // (ratio * max(1, len(query.text))))
    return " ".join([*[query.text] * repeats, beside])


def dense_query(query: Query, rules: Rules, expansion_prompt: ExpansionPrompt) -> tuple[QueryPart, ...]:
    """Return the parts whose vectors are averaged.

    Args:
        query: the query with its expansions.
        rules: which side of each difference holds.
        expansion_prompt: the prompt that the model's row gives a generated text under the published protocol.

    Raises:
        DataError: see `lexical_query`.
    """
    if not query.expansions:
        return (QueryPart(query.text, "query"),)
    _require_shared(query)
    if rules.dense_rewrite_join or rules.dense_rewrite_prompt:
        only_text(query)
    uses = [(use_under(rules, expansion), expansion.text) for expansion in query.expansions]
    heads = [text for use, text in uses if use == "replaces"] or [query.text]
    joined = [text for use, text in uses if use == "joined"]
    separator = "[SEP]" if rules.dense_rewrite_join else "\n"
    prompt: Prompt = expansion_prompt if rules.dense_rewrite_prompt else "document"
    asked = [QueryPart(separator.join([head, *joined]), "query") for head in heads]
    return *asked, *(QueryPart(text, prompt) for use, text in uses if use == "averaged")


def prepare_dense(
    queries: Sequence[Query],
    encoder: Encoder,
    *,
    rules: Rules,
    expansion_prompt: ExpansionPrompt,
    cosine: bool,
) -> FloatMatrix:
    """Embed queries: one call of the encoder per prompt, then the mean of each query's parts.

    For cosine, each part is brought to unit length first, so that all of them count alike. The published protocol
    (`dense-rewrite-mean`) averages what the encoder returns. The mean has unit length either way. A vector of zeros
    stays a vector of zeros.

    Args:
        queries: the queries with their expansions.
        encoder: embeds the parts.
        rules: which side of each difference holds.
        expansion_prompt: see `dense_query`.
        cosine: whether vectors are compared by cosine.

    Returns:
        float32, shape (Q, D), row i for queries[i].

    Raises:
        DataError: a vector is not finite, or the encoder returned another number of them; names the query.
    """
    parts = [dense_query(query, rules, expansion_prompt) for query in queries]
    owners_P = np.array([row for row, of_query in enumerate(parts) for _ in of_query], dtype=np.intp)
    vectors_PD = _encode([part for of_query in parts for part in of_query], encoder)
    bad_P = ~np.isfinite(vectors_PD).all(axis=1)
    if bad_P.any():
        query_id = queries[owners_P[bad_P][0]].query_id
        raise DataError(f"query {query_id!r}: its vector is not finite; every component must be a finite number")
    if cosine and not rules.dense_rewrite_mean:
        vectors_PD = unit_length(vectors_PD)
    means_QD = np.zeros((len(queries), encoder.dim))
    np.add.at(means_QD, owners_P, vectors_PD)
    means_QD /= np.bincount(owners_P, minlength=len(queries))[:, np.newaxis]
    return (unit_length(means_QD) if cosine else means_QD).astype(np.float32)


def _require_shared(query: Query) -> None:
    """Refuse texts that are never part of a query; `searches.searches_of` takes them apart."""
    for expansion in query.expansions:
        if expansion.use in ("alone", "subtracted"):
            raise DataError(
                f"query {query.query_id!r}: a text whose use is `{expansion.use}` needs a search of its own"
            )


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
