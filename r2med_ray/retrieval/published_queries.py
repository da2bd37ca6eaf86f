"""What R2MED's published protocol asks a retriever, given a query q and the one text h that it knows per query.

| use      | writer    | BM25                                | vectors: the mean over the parts            |
|----------|-----------|-------------------------------------|---------------------------------------------|
| any      | reasoning | h                                   | query(q), h with the row's expansion prompt |
| joined   | plain     | q q without a space between them, h | query(q `[SEP]` h), the six letters         |
| averaged | plain     | h; for `lamer` q, h                 | query(q), h with the row's expansion prompt |

The protocol is that of R2MED's repository at 62b7074: eval_BM25.py:129, eval_retrieval.py:42 and base.py. These
fields of `Rules` choose it: `bm25_rewrite` for BM25, `dense_rewrite_join` and `dense_rewrite_prompt` for vectors, and
`reasoning_writers` for the first line.
"""

from r2med_ray.errors import DataError
from r2med_ray.settings.compat import Rules
from r2med_ray.types import Expansion, Query, Use


def use_under(rules: Rules, expansion: Expansion) -> Use:
    """Return how a text is used; the published protocol uses every text of a reasoning model like hyde's."""
    return "averaged" if rules.reasoning_writers and expansion.reasoning else expansion.use


def published_lexical_query(query: Query, rules: Rules) -> str:
    """Return the text that the published BM25 is asked.

    Raises:
        DataError: see `only_text`.
    """
    expansion = only_text(query)
    if use_under(rules, expansion) == "joined":
        return f"{query.text * 2} {expansion.text}"
    counts_as_hyde = rules.reasoning_writers and expansion.reasoning
    if expansion.method == "lamer" and not counts_as_hyde:
        return f"{query.text} {expansion.text}"
    return expansion.text


def only_text(query: Query) -> Expansion:
    """Return the one text of a query.

    Raises:
        DataError: the query has several texts, or the text has a use that was never published.
    """
    if len(query.expansions) != 1:
        raise DataError(
            f"query {query.query_id!r} has {len(query.expansions)} expansions; the published protocol knows one"
        )
    [expansion] = query.expansions
    if expansion.use not in ("joined", "averaged"):
        raise DataError(
            f"query {query.query_id!r}: its text has the use `{expansion.use}`; "
            "the published protocol knows `joined` and `averaged`"
        )
    return expansion
