"""What a first stage reads of queries and of a document, as `r2med show` prints it."""

from collections import Counter
from collections.abc import Iterator, Sequence

from r2med_ray.first_stage import ShardedFirstStage, ToExplain
from r2med_ray.indexing.analyzers import ANALYZERS
from r2med_ray.indexing.bm25 import BM25Row, query_weights
from r2med_ray.indexing.statistics import CorpusStatistics
from r2med_ray.readings import Given, Term, Terms, listening
from r2med_ray.types import Document

LOADED = "the model was loaded into this process and read the texts"
NOT_ASKED = "the service was not asked; this is what it would be sent"
SAYS_NOTHING = "this kind doesn't say what it reads"


def read_by_model(first_stage: ShardedFirstStage, asked: ToExplain) -> Given:
    """Return what the model of a first stage reads; it is loaded into this process."""
    maker = first_stage.load(asked.store, asked.computing)
    with listening() as heard:
        for query in asked.queries:
            maker.make_queries(asked.task.name, [query], first_stage.rules)
        if asked.document is not None:
            maker.make_shard(asked.task.name, [asked.document], [0])
    origin = NOT_ASKED if first_stage.work == "ask a service" else LOADED
    lines = (origin,) if heard.readings else (origin, SAYS_NOTHING)
    return Given(lines=lines, readings=tuple(heard.readings))


def bags_of_words(
    row: BM25Row, texts: Sequence[str], document: Document | None, statistics: CorpusStatistics | None
) -> Iterator[Terms]:
    """Yield the terms of each text that BM25 is asked, and those of a document.

    Args:
        row: the parameters.
        texts: what is asked.
        document: see `ToExplain`.
        statistics: those of the corpus, which decide the weights; None if they aren't known yet.
    """
    for text in texts:
        weights = _counted(row, text) if statistics is None else query_weights(text, row, statistics)
        terms = tuple(Term(term=term, count=count, weight=weight) for term, (count, weight) in weights.items())
        yield Terms(side="query", text=text, terms=terms)
    if document is not None:
        counted = _counted(row, document.content).items()
        terms = tuple(Term(term=term, count=count, weight=None) for term, (count, _) in counted)
        yield Terms(side="document", text=document.content, terms=terms)


def _counted(row: BM25Row, text: str) -> dict[str, tuple[int, float | None]]:
    """Return term → count and no weight."""
    return {term: (count, None) for term, count in Counter(ANALYZERS[row.analyzer].analyze(text)).items()}
