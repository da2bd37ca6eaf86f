import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.ranking import best
from r2med_ray.retrieval.search import PlainRetriever, ReadWhenSearched, merge_shards, search_shards, shard_depth
from r2med_ray.types import Document, Query, ScoredDoc
from tests.fakes import WordCountEncoder, WordCountIndex

ENCODER = WordCountEncoder("cat", "dog", "sits")
DOCUMENTS = [
    Document(doc_id="q1", text="cat cat sits"),
    Document(doc_id="d2", text="dog sits"),
    Document(doc_id="d3", text="cat"),
    Document(doc_id="d4", text="cat"),
    Document(doc_id="d5", text="bird"),
]
QUERIES = [
    Query(query_id="q1", text="cat"),
    Query(query_id="q2", text="dog sits"),
    Query(query_id="q3", text="zzz"),
]


def prepare(queries):
    return ENCODER.encode_queries([query.text for query in queries])


def retriever(num_shards, **settings):
    shards = [WordCountIndex(ENCODER, DOCUMENTS[i::num_shards]) for i in range(num_shards)]
    return PlainRetriever("words", prepare, shards, **settings)


@pytest.mark.parametrize("num_shards", [1, 2, 3, 7])
def test_every_query_gets_its_best_documents_whatever_the_shards(num_shards):
    run = retriever(num_shards).retrieve(QUERIES, k=2)

    # "cat" is twice in q1, and once in d3 and in d4, of which d4 is first. "dog sits" has 1 + 1 in d2, and 1 in q1.
    assert run.tag == "words"
    assert run.rankings == {
        "q1": (("q1", 2.0), ("d4", 1.0)),
        "q2": (("d2", 2.0), ("q1", 1.0)),
        "q3": (),
    }


@pytest.mark.parametrize("num_shards", [1, 2, 3, 7])
def test_shards_that_are_read_for_every_search_give_the_same_run_and_are_not_held(num_shards):
    read = []

    def reading(shard):
        def index():
            read.append(shard)
            return WordCountIndex(ENCODER, DOCUMENTS[shard::num_shards])

        return ReadWhenSearched(index)

    shards = [reading(shard) for shard in range(num_shards)]
    streamed = PlainRetriever("words", prepare, shards, one_at_a_time=True)

    assert read == []
    assert streamed.retrieve(QUERIES, k=2) == retriever(num_shards).retrieve(QUERIES, k=2)
    assert streamed.retrieve(QUERIES, k=5) == retriever(num_shards).retrieve(QUERIES, k=5)
    assert read == [*range(num_shards)] * 2


@pytest.mark.parametrize("num_shards", [1, 2, 3])
def test_si01_a_query_does_not_find_itself_and_the_list_stays_full(num_shards):
    run = retriever(num_shards, drop_identical_ids=True).retrieve(QUERIES, k=2)

    assert run.rankings["q1"] == (("d4", 1.0), ("d3", 1.0))
    assert run.rankings["q2"] == (("d2", 2.0), ("q1", 1.0))


@given(
    scores=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=30),
    num_shards=st.integers(1, 5),
    k=st.integers(1, 10),
    drop=st.booleans(),
    excluded=st.frozensets(st.sampled_from(["d0", "d3", "d5", "d29", "elsewhere"])),
)
def test_sharding_never_changes_the_ranking(scores, num_shards, k, drop, excluded):
    query = Query(query_id="d3", text="", excluded=excluded)
    hits = [ScoredDoc(f"d{i}", score) for i, score in enumerate(scores)]
    depth = shard_depth(k, [query], drop_identical_ids=drop)
    answers = [[best(hits[i::num_shards], depth)] for i in range(num_shards)]

    run = merge_shards("any", [query], answers, k, drop_identical_ids=drop)

    left_out = excluded | {"d3"} if drop else excluded
    assert run.rankings["d3"] == best([hit for hit in hits if hit.doc_id not in left_out], k)


def test_a_shard_is_asked_for_as_many_more_as_any_query_leaves_out():
    queries = [Query(query_id="q1", text=""), Query(query_id="q2", text="", excluded=frozenset({"d1", "d2"}))]

    # 100, plus 2 that q2 leaves out, plus 1 for a document that is itself the query
    assert shard_depth(100, queries, drop_identical_ids=False) == 102
    assert shard_depth(100, queries, drop_identical_ids=True) == 103
    assert shard_depth(100, queries[:1], drop_identical_ids=False) == 100
    assert shard_depth(100, [], drop_identical_ids=False) == 100


def test_lm05_a_shard_that_leaves_out_a_query_is_an_error():
    ranking = (ScoredDoc("d1", 1.0),)

    with pytest.raises(DataError, match="shard 1 of 2 answered 2 of 3 queries"):
        merge_shards("any", QUERIES, [[ranking] * 3, [ranking] * 2], k=1)


def test_lm05_a_shard_that_answers_other_queries_than_the_shard_before_it_is_an_error():
    class Answers:
        def __init__(self, queries):
            self._queries = queries

        def search(self, queries, k):
            return [()] * self._queries

    with pytest.raises(DataError, match="a shard answered 2 queries, another one 3"):
        search_shards([Answers(3), Answers(2)], QUERIES, 1)


def test_mt05_a_score_that_is_not_finite_names_query_and_document():
    answers = [[(ScoredDoc("d1", 1.0),)], [(ScoredDoc("d2", float("nan")),)]]

    with pytest.raises(DataError, match="search: query 'q1', document 'd2' has score nan"):
        merge_shards("any", QUERIES[:1], answers, k=1)


def test_a_retriever_without_shards_is_refused():
    with pytest.raises(ConfigError, match="'words' has no shard"):
        PlainRetriever("words", prepare, [])
