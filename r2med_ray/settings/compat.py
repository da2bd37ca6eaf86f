"""The differences between the right way and R2MED's published protocol, and how one of the two is chosen.

Lines are those of `src/` in the repository R2MED/R2MED at commit 62b7074, or of the libraries that this code calls.
Differences of a single model are in the model's row of the catalogue, under `r2med`.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from r2med_ray.types import Compat

Part: TypeAlias = Literal["corpus", "bm25", "dense", "api", "rewriter", "reranker"]
"""A part that a system may have. A difference concerns a system that has all parts of the difference. Every system
has a corpus. An encoder behind an API is both `dense` and `api`."""

Chosen: TypeAlias = Literal["compat", "name", "never"]
"""How a side of a difference is chosen.

- `compat`: by the benchmark's or the system's `compat`.
- `name`: by the retriever's name in the file, under either `compat`.
- `never`: not at all, because the published behaviour is not offered.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One rule that has two sides."""

    id: str
    rule: str
    default: str
    r2med: str
    where: str
    """File and line of the published code."""

    effect: str
    """What the difference changes, or why the default is not the published way."""

    parts: frozenset[Part]
    chosen: Chosen = "compat"


DIFFERENCES = (
    Difference(
        id="conflicting-texts",
        rule="two texts under one document id",
        default="refused, with both lines",
        r2med="the last text counts",
        where="eval_retrieval.py:21-26",
        effect="none on the published corpora as far as is known: their repeated rows have identical texts",
        parts=frozenset({"corpus"}),
    ),
    Difference(
        id="bm25-duplicate-rows",
        rule="rows that repeat a document id, in BM25's statistics",
        default="counted once",
        r2med="every row counts in N, document frequencies and average length; the id is ranked once",
        where="eval_BM25.py:105-112",
        effect="four corpora have such rows: Bioinformatics 2, Medical-Sciences 18, MedQA-Diag 56, PMC-Treatment 145",
        parts=frozenset({"bm25"}),
    ),
    Difference(
        id="bm25-cut",
        rule="BM25 documents with equal scores at the cut of the ranking",
        default="the greater document id stays, as in trec_eval",
        r2med="the earlier row of the corpus stays; what stayed is ordered as in trec_eval",
        where="eval_BM25.py:80",
        effect="recall at the depth of the ranking: Biology has 7,925 copies of texts under other ids",
        parts=frozenset({"bm25"}),
    ),
    Difference(
        id="bm25-zero-scores",
        rule="documents that share no term with the query",
        default="no hits; a query without a known term has an empty ranking and counts 0",
        r2med="ranked with score 0 until the ranking is full",
        where="eval_BM25.py:75-80",
        effect="an empty rewrite ranks the first rows of the corpus, which may be relevant by chance",
        parts=frozenset({"bm25"}),
    ),
    Difference(
        id="bm25-query-weights",
        rule="weight of a query's terms in BM25",
        default="`bm25`: how often the term stands in the query",
        r2med="`bm25-r2med`: what BM25 gives the term in a document, so idf counts twice and repeats saturate",
        where="eval_BM25.py:75",
        effect="another order of documents; only `bm25-r2med` is compared with the published rows",
        parts=frozenset({"bm25"}),
        chosen="name",
    ),
    Difference(
        id="cosine-for-all",
        rule="similarity of vectors",
        default="what the model was trained for: cosine or inner product",
        r2med="cosine for every model",
        where="eval_retrieval.py:86",
        effect="Contriever, MedCPT and BMRetriever were trained for inner products",
        parts=frozenset({"dense"}),
    ),
    Difference(
        id="model-settings",
        rule="settings of single encoders",
        default="those of the model's row in the catalogue",
        r2med="the row with the changes that it lists under `r2med`, above all precision; MedCPT's article encoder "
        "reads queries too",
        where="eval_retrieval.py:160, utils.py",
        effect="last digits, but for MedCPT: published 7.87, where the leaderboard has 9.02",
        parts=frozenset({"dense"}),
    ),
    Difference(
        id="end-token",
        rule="the token that ends a text of E5-Mistral and SFR-Embedding-Mistral, whose state is the text's vector",
        default="stands behind every text, cut or not: `append_eos` of the model's row",
        r2med="is there only if the tokenizer writes it; for BMRetriever it is appended, as by default",
        where="utils.py, HighScaleModel.encode (its modes `Base` and `BMR`)",
        effect="none if the tokenizer at the row's commit writes it; without it another token's state is compared",
        parts=frozenset({"dense"}),
    ),
    Difference(
        id="api-inputs",
        rule="what OpenAI's and Voyage's encoders are sent",
        default="the text",
        r2med="the text as a JSON string: quoted, newlines as blanks, everything beyond ASCII escaped",
        where="utils.py:776",
        effect="two stray quotes, and Greek letters as digits",
        parts=frozenset({"dense", "api"}),
    ),
    Difference(
        id="identical-ids",
        rule="a document whose id is the query's",
        default="stays, unless `ignore_identical_ids` is set",
        r2med="dropped before the cut by vectors only; BM25 keeps it",
        where="eval_retrieval.py:110",
        effect="none where no document has a query's id; IIYi-Clinical shares one style of ids",
        parts=frozenset({"dense"}),
    ),
    Difference(
        id="dense-ties",
        rule="vectors with equal scores at the cut of the ranking",
        default="the greater document id stays",
        r2med="the same among the 101 that torch.topk returned; which of more than these is not defined there",
        where="beir 2.0.0, retrieval/search/dense/exact_search.py",
        effect="can't be reproduced: the published choice depended on library and device",
        parts=frozenset({"dense"}),
        chosen="never",
    ),
    Difference(
        id="nan-scores",
        rule="a score or vector that is not a number",
        default="refused, with stage, query and document",
        r2med="NaN becomes -1; here it is refused all the same",
        where="beir 2.0.0, retrieval/search/dense/exact_search.py",
        effect="a broken model must not get a figure",
        parts=frozenset({"corpus"}),
        chosen="never",
    ),
    Difference(
        id="bm25-rewrite",
        rule="what BM25 is asked with a generated text",
        default="query, blank, text; the query repeated while it is shorter than a fifth of the text (MuGI)",
        r2med="query2doc: the query twice without a blank between, blank, text; lamer: query, blank, text; "
        "hyde and others: the text alone",
        where="eval_BM25.py:129",
        effect="`q*2` joins the query's last and first word into one term",
        parts=frozenset({"bm25", "rewriter"}),
    ),
    Difference(
        id="dense-rewrite-join",
        rule="query2doc's text in a dense query",
        default="query, newline, text as one text",
        r2med="query, the six letters `[SEP]`, text as one text",
        where="eval_retrieval.py:42",
        effect="a separator for BERT's tokenizer only; six stray characters for all others",
        parts=frozenset({"dense", "rewriter"}),
    ),
    Difference(
        id="dense-rewrite-prompt",
        rule="prompt of a generated text that is embedded on its own",
        default="the document prompt, for it stands for a document",
        r2med="none, or the query's for Instructor, GritLM and NV-Embed: `expansion_prompt` of the model's row",
        where="utils.py:233-236, 578-581, 645-649",
        effect="a model sees the text as it never saw one in training",
        parts=frozenset({"dense", "rewriter"}),
    ),
    Difference(
        id="dense-rewrite-mean",
        rule="mean of the vectors of a query and its text, for models scored by cosine",
        default="of unit vectors, so that both weigh alike",
        r2med="of the vectors as the model returns them",
        where="utils.py:233-236, 578-581, 645-649",
        effect="for Contriever, MedCPT and BMRetriever the longer vector weighs more",
        parts=frozenset({"dense", "rewriter"}),
    ),
    Difference(
        id="reasoning-writers",
        rule="what decides how a text is used",
        default="the method",
        r2med="the writer first: texts of reasoning models are used like hyde's, whatever the method",
        where="base.py:5",
        effect="query2doc and lamer with a reasoning model are hyde",
        parts=frozenset({"rewriter"}),
    ),
    Difference(
        id="missing-marker",
        rule="a reasoning model's output without the marker that ends its reasoning",
        default="unusable: the original query is used, counted, and limited by `max_unusable`",
        r2med="used whole, reasoning included; flagged and counted",
        where="base.py:11-13",
        effect="a text that was cut while thinking becomes a very long query",
        parts=frozenset({"rewriter"}),
    ),
    Difference(
        id="unusable-texts",
        rule="an answer that is empty, or a refusal",
        default="the original query is used, counted, and limited by `max_unusable`",
        r2med="used as it is; flagged and counted",
        where="base.py:7-36",
        effect="an empty answer asks BM25 nothing",
        parts=frozenset({"rewriter"}),
    ),
    Difference(
        id="rerank-rest",
        rule="documents below the reranked head",
        default="stay below it, in their order",
        r2med="are left out",
        where="eval_reranker.py",
        effect="R@100 of a run reranked at 10 is its R@10",
        parts=frozenset({"reranker"}),
    ),
    Difference(
        id="missing-queries",
        rule="a judged query that the run does not name",
        default="counts 0, and is counted",
        r2med="left out of the mean; one with an empty ranking counts 0",
        where="beir 2.0.0, retrieval/evaluation.py; pytrec_eval",
        effect="none on the published figures: those runs name every query",
        parts=frozenset({"corpus"}),
        chosen="never",
    ),
    Difference(
        id="rounding",
        rule="digits of a figure",
        default="as computed in the files; tables round what they show",
        r2med="5 decimals in the files, round(100 * x, 2) in tables",
        where="beir 2.0.0, retrieval/evaluation.py",
        effect="half a unit of the last digit, which comparisons allow for",
        parts=frozenset({"corpus"}),
        chosen="never",
    ),
)
"""All differences, in the order of the flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The sides that a system takes, resolved once and given to its parts. True is a difference's published side.

    Each row of `DIFFERENCES` that is chosen by `compat` has a field here with the name of the row.
    """

    conflicting_texts: bool = False
    bm25_duplicate_rows: bool = False
    bm25_cut: bool = False
    bm25_zero_scores: bool = False
    cosine_for_all: bool = False
    model_settings: bool = False
    end_token: bool = False
    api_inputs: bool = False
    identical_ids: bool = False
    bm25_rewrite: bool = False
    dense_rewrite_join: bool = False
    dense_rewrite_prompt: bool = False
    dense_rewrite_mean: bool = False
    reasoning_writers: bool = False
    missing_marker: bool = False
    unusable_texts: bool = False
    rerank_rest: bool = False
    ignore_identical_ids: bool | None = None
    """What the benchmark file says about a document whose id is the query's; None leaves it to `identical_ids`."""

    @classmethod
    def of(cls, compat: Compat, ignore_identical_ids: bool | None = None) -> Self:
        """Return the rules of a `compat`."""
        chosen = {row.id.replace("-", "_"): compat == "r2med" for row in DIFFERENCES if row.chosen == "compat"}
        return cls(**chosen, ignore_identical_ids=ignore_identical_ids)

    @property
    def compat(self) -> Compat:
        """The name of this set of rules, which is part of artefact keys."""
        return "r2med" if self.conflicting_texts else "none"

    @property
    def vectors_drop_identical_ids(self) -> bool:
        """Whether vectors leave out a document whose id is the query's."""
        return self.identical_ids if self.ignore_identical_ids is None else self.ignore_identical_ids

    @property
    def terms_drop_identical_ids(self) -> bool:
        """Whether all other kinds of retrievers leave out such a document. The published BM25 keeps it."""
        return bool(self.ignore_identical_ids)


def in_force(compat: Compat, parts: Set[Part]) -> tuple[Difference, ...]:
    """Return the differences from the right way that a system has because of its `compat`.

    Args:
        compat: the system's `compat`.
        parts: the parts of the system.
    """
    if compat == "none":
        return ()
    return tuple(row for row in DIFFERENCES if row.chosen == "compat" and row.parts <= parts | {"corpus"})


def explain() -> str:
    """Return the whole table as text."""
    how = {
        "compat": "compat: r2med",
        "name": "the retriever's name, under either compat",
        "never": "nothing: not offered",
    }
    return "\n\n".join(
        f"{row.id}: {row.rule}\n"
        f"  default    {row.default}\n"
        f"  r2med      {row.r2med}\n"
        f"  in         {row.where}\n"
        f"  effect     {row.effect}\n"
        f"  chosen by  {how[row.chosen]}"
        for row in DIFFERENCES
    )
