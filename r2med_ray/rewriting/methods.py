"""The rewriting methods: what a language model writes for a query, and how that text is used in a search.

Published methods have the names that R2MED's generation files give them. `retrieval.query_construction` and
`retrieval.searches` say what a use means for BM25 and for vectors. `own_methods` reads methods of the user's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

from r2med_ray.chat import LanguageModel
from r2med_ray.demands import QueryRewriter
from r2med_ray.first_stage import FirstStage
from r2med_ray.rewriting.prompts import PromptTask
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.registry import Registry
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.types import CHARACTERS_PER_REPEAT, Task, Use

Kind: TypeAlias = Literal["live", "agent", "ranker"]
"""`live`: a model writes one text per prompt. `agent`: a model searches while it reasons, and answers in the end.
`ranker`: a model searches by calls of tools, and its answer is a ranking."""


class RewriterArguments(TypedDict):
    """What a rewriter is built of, beside its settings in the benchmark file."""

    task: Task
    """The task whose queries are rewritten."""

    method: "Method"
    """The row of `config.method`."""

    model: LanguageModel | None
    """The row of `config.llm`; None if texts are replayed."""

    in_place: bool
    """Whether the model's server lets the model go on within its own message."""

    tool: FirstStage | None
    """What the model searches with, or whose results the model is shown; None for neither."""

    tool_inputs: Mapping[str, Any]
    """Everything that changes what the tool finds, for artefact keys."""

    rules: Rules
    """Which side of each difference is used."""

    prompt: PromptTask
    """The values by which the prompt is chosen."""

    can_fetch: bool
    """Whether published texts can be fetched for the task."""

    system: str
    """The name of the system, for errors."""


class BuildRewriter(Protocol):
    """Builds the rewriter of one system for one task."""

    def __call__(self, config: RewriterConfig, **about: Unpack[RewriterArguments]) -> QueryRewriter: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way in which a language model changes a query."""

    use: Use
    """How the text is used in a search."""

    meaning: str = ""
    """What the text is and how it is used, as a phrase for a reader."""

    source: str = ""
    """The paper that the method is from, or a method that it is like."""

    expansion_method: str = ""
    """The `Expansion.method` of texts that this method writes; the method's own name if this is empty.

    Keys of stored runs hold this name. The published protocol decides by this name how a text is used.
    """

    needs_candidates: bool = False
    """Whether the model is shown what a first search found."""

    rounds: int = 1
    """How many texts are written one after the other if the settings don't say it. Each search is made with the texts
    so far."""

    shows_earlier: bool = False
    """Whether the model is shown the last text of the same query."""

    then: str = ""
    """The name of a method that writes a second text for the query, and may be shown the first."""

    per_repeat: int = CHARACTERS_PER_REPEAT
    """See `Expansion.per_repeat`."""

    kind: Kind = "live"
    build: BuildRewriter | None = None
    """Builds the rewriter, if the method has a class of its own; None for the kinds that come with the package."""

    @property
    def places(self) -> tuple[str, ...]:
        """The places of the method's prompt files."""
        candidates = ("candidates",) if self.needs_candidates else ()
        return ("query", *candidates, *(("earlier",) if self.shows_earlier else ()))

    def turns(self, config: RewriterConfig) -> int:
        """Return how many texts are written for a query one after the other."""
        return ((config.candidates and config.candidates.rounds) or self.rounds) + bool(self.then)


METHODS: Registry[Method] = Registry(
    "rewriting method",
    [
        (
            "hyde",
            Method(
                use="averaged",
                meaning="a passage that could answer the query, embedded as a document and averaged with the query",
                source="Gao et al. 2023, arXiv 2212.10496",
            ),
        ),
        (
            "query2doc",
            Method(
                use="joined",
                meaning="a passage written after few-shot examples, joined to the text of the query",
                source="Wang et al. 2023, arXiv 2303.07678",
            ),
        ),
        (
            "lamer",
            Method(
                use="averaged",
                meaning="a passage corrected from the candidates of a first search, used like that of hyde",
                source="Shen et al. 2024, arXiv 2304.14233",
                needs_candidates=True,
            ),
        ),
        (
            "search-o1",
            Method(
                use="averaged",
                meaning="the answer of a model that searches while it reasons, used like the passage of hyde",
                source="Li et al. 2025, arXiv 2501.05366",
                kind="agent",
            ),
        ),
        (
            "search-r1",
            Method(
                use="averaged",
                meaning="the answer of a model trained to search while it reasons, used like the passage of hyde",
                source="Jin et al. 2025, arXiv 2503.09516",
                kind="agent",
            ),
        ),
        (
            "reason",
            Method(
                use="averaged",
                meaning="an analysis of what a relevant document has to say, used like the passage of hyde",
                source="the reasoning queries of BRIGHT, Su et al. 2024, arXiv 2407.12883",
                expansion_method="hyde",
            ),
        ),
        (
            "keywords",
            Method(
                use="joined",
                meaning="the terms that a relevant document is likely to hold, joined to the text of the query",
                source="Jagerman et al. 2023, arXiv 2305.03653",
                expansion_method="query2doc",
            ),
        ),
        (
            "diagnoses",
            Method(
                use="joined",
                meaning="the conditions that explain the query, likeliest first, joined to its text",
                source="keywords, asked for as a differential diagnosis",
                expansion_method="query2doc",
            ),
        ),
        (
            "intent",
            Method(
                use="replaces",
                meaning="what the query is after in fewer words, searched in its place",
                source="INF-Query-Aligner of INF-X-Retriever, github yaoyichen/INF-X-Retriever",
            ),
        ),
        (
            "reasoned-query",
            Method(
                use="replaces",
                meaning="the query worked out by reasoning, searched in its place",
                source="TongSearch-QR; BGE-Reasoner-Rewriter, with `samples: 5, combine: sum`",
            ),
        ),
        (
            "diver-qexpand",
            Method(
                use="joined",
                meaning="texts written in rounds, each after unseen passages and the last text, joined to the query",
                source="DIVER, github AQ-MedAI/Diver",
                needs_candidates=True,
                rounds=2,
                shows_earlier=True,
            ),
        ),
        (
            "thinkqe",
            Method(
                use="joined",
                meaning="texts written in rounds, each after unseen passages, joined to the text of the query",
                source="ThinkQE, github Yibin-Lei/Think_QE",
                needs_candidates=True,
                rounds=3,
                per_repeat=3,
            ),
        ),
        (
            "contrast",
            Method(
                use="averaged",
                meaning="the likeliest answer, used like the passage of hyde; the scores of its mimic are taken away",
                source="contrastive hypothesis retrieval, arXiv 2604.04593",
                then="mimic",
            ),
        ),
        (
            "mimic",
            Method(
                use="subtracted",
                meaning="what is most easily taken for the answer; its scores are taken away from the query's",
                source="the second text of contrast",
                shows_earlier=True,
            ),
        ),
        (
            "retrieval-agent",
            Method(
                use="alone",
                meaning="the documents that a model names in the end, best first, in place of a search",
                source="NeMo agentic retrieval, github NVIDIA/NeMo-Retriever, retrieval-bench",
                kind="ranker",
            ),
        ),
    ],
)


def spelled(name: str) -> str:
    """Return a method's or writer's name with dashes. Split names of the Hub have underscores in place of dashes."""
    return name.replace("_", "-")
