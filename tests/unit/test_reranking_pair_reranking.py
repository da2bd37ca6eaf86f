from dataclasses import dataclass

from r2med_ray.demands import Score
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.pair_reranking import PairReranker
from r2med_ray.types import Document, Query, Reranking
from tests.fakes import SharedWords, answer


@dataclass(frozen=True)
class Row:
    name: str


def test_all_pairs_are_one_demand_and_its_answer_is_the_result() -> None:
    work = [
        Candidates(Query(query_id=text, text=text), (Document(doc_id="d", text="rash and fever"),), (1.0,))
        for text in ("rash fever", "itch")
    ]
    steps = PairReranker(Row("words")).score_all(work)

    made, demanded = answer(steps, {Score: lambda demand: SharedWords().score_all(demand.candidates)})

    assert demanded == [Score(scorer=Row("words"), candidates=tuple(work))]
    # the document has two words of the first query and none of the second
    assert made == Reranking(scores={"rash fever": [2.0], "itch": [0.0]})
