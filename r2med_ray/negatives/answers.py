"""The right answers of a task's queries, where its files have them: the field `answer` of R2MED's layout."""

from r2med_ray.corpus.records import read_records
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.storage.ids import IdReader
from r2med_ray.types import QueryId


def right_answers(source: TaskSource) -> dict[QueryId, str]:
    """Return query id → right answer, for queries that have one.

    Raises:
        DataError: an id is bad; names file and line.
    """
    if source.layout != "r2med":
        return {}
    path = source.files.queries
    ids = IdReader(path)
    answers = {
        ids.read(record.first_of(["id"]), where=record.where): record.values.get("answer")
        for record in read_records(path)
    }
    return {query_id: answer for query_id, answer in answers.items() if isinstance(answer, str) and answer.strip()}
