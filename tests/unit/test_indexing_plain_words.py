"""Terms as NanoR2MED's first BM25 lists most likely had them, as a control for today's lists."""

from r2med_ray.indexing import plain_words, porter_stop
from r2med_ray.indexing.analyzers import ANALYZERS
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.indexing.bm25_index import BM25Index
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms

plain = ANALYZERS[plain_words.ANALYZER].analyze
stemmed = ANALYZERS[porter_stop.ANALYZER].analyze


def test_stop_words_endings_and_letters_of_any_script_stay() -> None:
    text = "The patient's naïve β-cells, WBC_1 x"

    assert plain(text) == ["the", "patient", "s", "naïve", "β", "cells", "wbc_1", "x"]
    # "the" is a stop word; ï, β and _ end a token; "cells" loses its ending
    assert stemmed(text) == ["patient", "s", "na", "ve", "cell", "wbc", "1", "x"]


def test_the_two_variants_differ_in_nothing_but_their_terms() -> None:
    nano, control = (BM25_ROWS[name].inputs() for name in ("bm25-nano", "bm25-nano-plain"))

    assert control == {**nano, "analyzer": plain_words.ANALYZER}


def best_of(variant: str) -> str:
    row = BM25_ROWS[variant]
    texts = ["fevers treated at home", "he was as it was when he was", "a", "b", "c", "d", "e"]
    terms = ShardTerms.from_texts(texts, row.analyzer)
    index = BM25Index.build(terms, ["d0", "d1", *"abcde"], CorpusStatistics.of_shard(terms), row)
    [ranking] = index.search(["it was a fever when he was as he was"], 1)
    return ranking[0].doc_id


def test_stop_words_rule_a_long_query_unless_they_are_left_out() -> None:
    # The query has five words of d1, all of them stop words. It has one word of d0, "fever", but only after stemming.
    assert best_of("bm25-nano-plain") == "d1"
    assert best_of("bm25-nano") == "d0"
