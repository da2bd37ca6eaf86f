"""The rewriting methods: what their text is, and how it is meant to be used.

Names of published methods are those of the published generation files. How a text enters the query of a retriever is
decided in `retrieval.query_construction`, by the name of the method; a method of ours is used like a published one.
"""

from dataclasses import dataclass

from r2med_ray.settings.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to have a language model change a query."""

    use: str
    """How the text is meant to be used."""

    source: str
    like: str = ""
    """The published method whose text is used in the same way, where it isn't one itself."""

    needs_candidates: bool = False
    """Whether the model is shown what a first search found."""


METHODS: Registry[Method] = Registry(
    "rewriting method",
    [
        (
            "hyde",
            Method(
                use="a passage that could answer the query, embedded as a document and averaged with the query",
                source="Gao et al. 2023, arXiv 2212.10496",
            ),
        ),
        (
            "query2doc",
            Method(
                use="a passage written after few-shot examples, joined to the text of the query",
                source="Wang et al. 2023, arXiv 2303.07678",
            ),
        ),
        (
            "lamer",
            Method(
                use="a passage corrected from the candidates of a first search, used like that of hyde",
                source="Shen et al. 2024, arXiv 2304.14233",
                needs_candidates=True,
            ),
        ),
        (
            "search-o1",
            Method(
                use="the answer of a model that searches while it reasons, used like the passage of hyde",
                source="Li et al. 2025, arXiv 2501.05366",
            ),
        ),
        (
            "search-r1",
            Method(
                use="the answer of a model trained to search while it reasons, used like the passage of hyde",
                source="Jin et al. 2025, arXiv 2503.09516",
            ),
        ),
        (
            "reason",
            Method(
                use="an analysis of what a relevant document has to say, used like the passage of hyde",
                source="the reasoning queries of BRIGHT, Su et al. 2024, arXiv 2407.12883",
                like="hyde",
            ),
        ),
        (
            "keywords",
            Method(
                use="the terms that a relevant document is likely to hold, joined to the text of the query",
                source="Jagerman et al. 2023, arXiv 2305.03653",
                like="query2doc",
            ),
        ),
        (
            "diagnoses",
            Method(
                use="the conditions that explain the query, likeliest first, joined to its text",
                source="keywords, asked for as a differential diagnosis",
                like="query2doc",
            ),
        ),
    ],
)


def spelled(name: str) -> str:
    """Return a method's or writer's name with dashes: the hub's split names have underscores for them."""
    return name.replace("_", "-")
