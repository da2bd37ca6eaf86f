"""A task of mteb that is made in memory, without a network: twelve documents on three subjects, five queries."""

from collections.abc import Sequence
from typing import Any

from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

CORPUS = [
    ("c1", "Glycaemia", "Metformin lowers blood glucose in type 2 diabetes."),
    ("c2", "", "  Insulin is given to patients with type 1 diabetes.  "),
    ("c3", "", "Thirst and weight loss are signs of diabetes mellitus."),
    ("c4", "Kidney", "Diabetes damages the kidney over years."),
    ("m1", "", "Migraine is a headache with nausea and light sensitivity."),
    ("m2", "Triptans", "Sumatriptan treats acute migraine attacks."),
    ("m3", "", "Tension headache feels like a tight band."),
    ("m4", "", "Cluster headache comes with tearing of one eye."),
    ("s1", "", "Penicillin treats a sore throat by streptococci."),
    ("s2", "Throat", "Most sore throats are viral and need no antibiotics."),
    ("s3", "", "Rheumatic fever may follow a streptococcal throat infection."),
    ("s4", "", "Zinc lozenges are sold for colds."),
]
QUERIES = [
    ("q1", "Which drug lowers glucose in diabetes?"),
    ("q2", "one sided headache with nausea, which treatment for the attack"),
    ("q3", "antibiotics for a sore throat"),
    ("q4", "kidney disease after years of diabetes"),
    ("q5", "nothing is judged for this"),
]
QRELS = {"q1": {"c1": 2, "c2": 1}, "q2": {"m1": 1, "m2": 2}, "q3": {"s1": 1, "s2": 1}, "q4": {"c4": 1}}


class TinyRetrieval(AbsTaskRetrieval):
    """A retrieval task of mteb. Some documents have a title, and one text has white space around it."""

    metadata = TaskMetadata(
        name="TinyMedicalRetrieval",
        description="made up",
        dataset={"path": "in/memory", "revision": "1"},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )

    def load_data(self, num_proc: int | None = None, **_: Any) -> None:
        self.dataset = {"default": {"test": self.split()}}
        self.data_loaded = True

    def split(self) -> Any:
        return {
            "corpus": table(("id", "title", "text"), CORPUS),
            "queries": table(("id", "text"), QUERIES),
            "relevant_docs": {query_id: dict(grades) for query_id, grades in QRELS.items()},
            "top_ranked": None,
        }


class OlderRetrieval(TinyRetrieval):
    """A task that fills the attributes of mteb 1, as R2MED's tasks still do."""

    def load_data(self, num_proc: int | None = None, **_: Any) -> None:
        if not self.data_loaded:
            self.corpus = {"test": {doc_id: {"text": text} for doc_id, _, text in CORPUS}}
            self.queries = {"test": dict(QUERIES)}
            self.relevant_docs = {"test": self.split()["relevant_docs"]}
            self.data_loaded = True


def table(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Dataset:
    return Dataset.from_dict(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
