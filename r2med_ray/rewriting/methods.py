"""The rewriting methods: what their text is, and how it is meant to be used.

Names are those of the published generation files. How a text enters the query of a retriever is decided in
`retrieval.query_construction`, by the name of the method.
"""

from dataclasses import dataclass

from r2med_ray.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to have a language model change a query."""

    use: str
    """How the text is meant to be used."""

    source: str


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
    ],
)


def spelled(name: str) -> str:
    """Return a method's or writer's name with dashes: the hub's split names have underscores for them."""
    return name.replace("_", "-")
