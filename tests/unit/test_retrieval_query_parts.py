"""The vectors of a query's parts are returned to that query, even if other queries were encoded with it."""

from collections.abc import Sequence

from r2med_ray.retrieval.query_parts import encode_parts
from r2med_ray.types import Document, Expansion, Query

HYDE = Expansion(text="aspirin helps", method="hyde")
JOINED = Expansion(text="it is a virus", method="query2doc")


class Sides:
    """An encoder that returns the side and the text in words, and remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def queries(self, texts: Sequence[str]) -> list[str]:
        self.calls.append("queries")
        return [f"query({text})" for text in texts]

    def documents(self, documents: Sequence[Document]) -> list[str]:
        self.calls.append("documents")
        return [f"document({document.content})" for document in documents]


def test_a_query_stands_before_its_texts_which_are_read_as_documents() -> None:
    queries = [
        Query(query_id="1", text="attack", expansions=(HYDE, HYDE)),
        Query(query_id="2", text="fever"),
        Query(query_id="3", text="cough", expansions=(JOINED, HYDE)),
    ]
    sides = Sides()

    assert encode_parts(queries, sides.queries, sides.documents) == [
        ["query(attack)", "document(aspirin helps)", "document(aspirin helps)"],
        ["query(fever)"],
        ["query(cough\nit is a virus)", "document(aspirin helps)"],
    ]
    assert sides.calls == ["queries", "documents"]


def test_documents_are_not_asked_for_where_nothing_was_written() -> None:
    sides = Sides()

    assert encode_parts([Query(query_id="1", text="fever")], sides.queries, sides.documents) == [["query(fever)"]]
    assert sides.calls == ["queries"]
