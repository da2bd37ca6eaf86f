import numpy as np
import pytest

from r2med_ray.errors import DataError
from r2med_ray.retrieval.query_construction import QueryPart, dense_query, lexical_query, prepare_dense
from r2med_ray.settings.compat import Rules
from r2med_ray.types import Expansion, Query
from tests.fakes import RecordingEncoder, WordCountEncoder

DEFAULT = Rules()
PUBLISHED = Rules.of("r2med")


def query(text="acute pain", *expansions, query_id="7"):
    return Query(query_id=query_id, text=text, expansions=expansions)


def written(text, method="hyde", *, reasoning=False, use=None):
    return Expansion(text=text, method=method, reasoning=reasoning, use=use)


class BrokenEncoder(WordCountEncoder):
    """An encoder that gives the text "broken" a vector of NaN."""

    def encode_plain(self, texts):
        vectors_BD = super().encode_plain(texts)
        vectors_BD[[text == "broken" for text in texts]] = np.nan
        return vectors_BD


@pytest.mark.parametrize("rules", [DEFAULT, PUBLISHED])
def test_a_query_without_texts_is_asked_as_it_is(rules):
    assert lexical_query(query(), rules) == "acute pain"
    assert dense_query(query(), rules, "none") == (QueryPart("acute pain", "query"),)


def test_compat_refuses_what_was_never_published():
    with pytest.raises(DataError, match="'7' has 2 expansions; the published protocol knows one"):
        lexical_query(query("acute pain", written("a"), written("b")), PUBLISHED)


@pytest.mark.parametrize("reasoning", [False, True])
@pytest.mark.parametrize(
    ("method", "dense"),
    [
        ("hyde", [("acute pain", "query"), ("nerve h", "document")]),
        ("lamer", [("acute pain", "query"), ("nerve h", "document")]),
        ("search-r1", [("acute pain", "query"), ("nerve h", "document")]),
        ("query2doc", [("acute pain\nnerve h", "query")]),
    ],
)
def test_r11_by_default_texts_are_joined_by_a_blank_and_embedded_as_documents(method, reasoning, dense):
    rewritten = query("acute pain", written("nerve h", method, reasoning=reasoning))

    assert lexical_query(rewritten, DEFAULT) == "acute pain nerve h"
    assert list(dense_query(rewritten, DEFAULT, "none")) == dense


@pytest.mark.parametrize(
    ("length", "repeats"),
    [
        # n = characters of the text // (5 × characters of the query), at least 1; the query has 2 characters
        (5, 1),
        (19, 1),
        (20, 2),
        (31, 3),
    ],
)
def test_a_short_query_is_repeated_to_keep_its_weight_in_bm25(length, repeats):
    text = "h" * length

    assert lexical_query(query("ab", written(text)), DEFAULT) == "ab " * repeats + text


def test_a_text_can_name_the_length_at_which_the_query_is_repeated():
    long = Expansion(text="h" * 30, method="thinkqe", use="joined", per_repeat=3)

    # 30 characters // (3 × 2) = 5 times; with the usual 5 it would be 3 times
    assert lexical_query(query("ab", long), DEFAULT) == "ab " * 5 + "h" * 30


def test_several_texts_of_one_query():
    rewritten = query("acute pain", written("a"), written("b"), written("c", "query2doc"))

    assert lexical_query(rewritten, DEFAULT) == "acute pain a b c"
    assert dense_query(rewritten, DEFAULT, "none") == (
        ("acute pain\nc", "query"),
        ("a", "document"),
        ("b", "document"),
    )


def test_lm09_bm25_sees_the_same_cleaned_text_as_the_dense_path():
    rewritten = query("acute pain", written("cleaned", reasoning=True))

    for rules in (DEFAULT, PUBLISHED):
        texts = [part.text for part in dense_query(rewritten, rules, "none")]
        assert texts == ["acute pain", "cleaned"]
        assert lexical_query(rewritten, rules).endswith("cleaned")


@pytest.mark.parametrize(
    ("rules", "expansion_prompt", "calls"),
    [
        (DEFAULT, "none", [("queries", ("acute pain", "itch")), ("documents", ("nerve",))]),
        (PUBLISHED, "none", [("queries", ("acute pain", "itch")), ("plain", ("nerve",))]),
        (PUBLISHED, "query", [("queries", ("acute pain", "nerve", "itch"))]),
    ],
)
def test_en07_each_text_goes_once_through_the_prompt_that_is_meant_for_it(rules, expansion_prompt, calls):
    encoder = RecordingEncoder(WordCountEncoder("pain", "nerve"))
    queries = [query("acute pain", written("nerve")), query("itch", query_id="8")]

    prepare_dense(queries, encoder, rules=rules, expansion_prompt=expansion_prompt, cosine=False)

    assert encoder.calls == calls


ENCODER = WordCountEncoder("pain", "nerve")
LONG = query("pain", written("nerve nerve nerve"))


@pytest.mark.parametrize(
    ("rules", "cosine", "expected"),
    [
        # the query is (1, 0), the text is (0, 3)
        pytest.param(PUBLISHED, False, (0.5, 1.5), id="raw-mean"),
        # (0.5, 1.5) / √2.5
        pytest.param(PUBLISHED, True, (0.316228, 0.948683), id="raw-mean-then-unit"),
        pytest.param(DEFAULT, False, (0.5, 1.5), id="dot-product"),
        # the unit vectors are (1, 0) and (0, 1), their mean is (0.5, 0.5), with length √0.5
        pytest.param(DEFAULT, True, (0.707107, 0.707107), id="units-count-alike"),
    ],
)
def test_a_query_is_the_mean_of_its_parts(rules, cosine, expected):
    vectors_QD = prepare_dense([LONG], ENCODER, rules=rules, expansion_prompt="none", cosine=cosine)

    assert vectors_QD.dtype == np.float32
    assert vectors_QD[0] == pytest.approx(expected, abs=1e-6)


def test_queries_keep_their_rows_whatever_their_number_of_parts():
    queries = [query("nerve", query_id="1"), LONG, query("itch", query_id="2"), query("pain pain", query_id="3")]

    vectors_QD = prepare_dense(queries, ENCODER, rules=DEFAULT, expansion_prompt="none", cosine=False)

    assert vectors_QD.tolist() == [[0, 1], [0.5, 1.5], [0, 0], [2, 0]]


def test_a_vector_of_zeros_stays_one_under_cosine():
    vectors_QD = prepare_dense([query("itch")], ENCODER, rules=DEFAULT, expansion_prompt="none", cosine=True)

    assert vectors_QD.tolist() == [[0, 0]]


def test_en05_no_queries_give_no_rows_and_ask_the_encoder_nothing():
    encoder = RecordingEncoder(ENCODER)

    vectors_QD = prepare_dense([], encoder, rules=DEFAULT, expansion_prompt="none", cosine=True)

    assert (vectors_QD.shape, vectors_QD.dtype, encoder.calls) == ((0, 2), np.float32, [])


@pytest.mark.parametrize("cosine", [True, False])
def test_mt05_a_vector_that_is_not_finite_names_its_query(cosine):
    queries = [query("pain", query_id="fine"), query("pain", written("broken"), query_id="bad")]

    with pytest.raises(DataError, match="query 'bad': its vector is not finite"):
        prepare_dense(queries, BrokenEncoder("pain"), rules=DEFAULT, expansion_prompt="none", cosine=cosine)


def test_an_encoder_that_loses_a_row_is_noticed():
    class Forgetful(WordCountEncoder):
        def encode_queries(self, texts):
            return super().encode_queries(texts[:1])

    queries = [query("pain", query_id="1"), query("nerve", query_id="2")]

    with pytest.raises(DataError, match=r"shape \(1, 1\) for 2 texts"):
        prepare_dense(queries, Forgetful("pain"), rules=DEFAULT, expansion_prompt="none", cosine=False)


def test_a_text_that_replaces_its_query_is_asked_without_it():
    replacing = [written("a", use="replaces"), written("b", use="replaces")]

    assert lexical_query(query("acute pain", *replacing), DEFAULT) == "a b"
    assert dense_query(query("acute pain", *replacing), DEFAULT, "none") == (("a", "query"), ("b", "query"))


def test_other_texts_stand_behind_the_one_that_replaces_the_query():
    rewritten = query("acute pain", written("c", use="joined"), written("d"), written("a", use="replaces"))

    assert lexical_query(rewritten, DEFAULT) == "a c d"
    assert dense_query(rewritten, DEFAULT, "none") == (("a\nc", "query"), ("d", "document"))


@pytest.mark.parametrize("use", ["alone", "subtracted"])
def test_a_text_with_a_search_of_its_own_is_no_part_of_a_query(use):
    rewritten = query("acute pain", written("a", use=use))

    for ask in (lambda: lexical_query(rewritten, DEFAULT), lambda: dense_query(rewritten, DEFAULT, "none")):
        with pytest.raises(DataError, match=f"query '7': a text whose use is `{use}` needs a search of its own"):
            ask()


def test_compat_refuses_a_use_that_was_never_published():
    rewritten = query("acute pain", written("a", use="replaces"))

    for ask in (lambda: lexical_query(rewritten, PUBLISHED), lambda: dense_query(rewritten, PUBLISHED, "none")):
        with pytest.raises(
            DataError, match="the use `replaces`; the published protocol knows `joined` and `averaged`"
        ):
            ask()


def test_the_use_decides_and_not_the_name_of_the_method():
    joined = query("acute pain", written("a", "terms", use="joined"))

    assert dense_query(joined, DEFAULT, "none") == (("acute pain\na", "query"),)
    # as for query2doc: the query twice without a space between, and the six letters `[SEP]` before the text
    assert lexical_query(joined, PUBLISHED) == "acute painacute pain a"
    assert dense_query(joined, PUBLISHED, "none") == (("acute pain[SEP]a", "query"),)


@pytest.mark.parametrize(
    ("field", "lexical", "dense"),
    [
        # The text is joined and from a reasoning model. By default the query for BM25 is "acute pain a", and the one
        # for vectors is "acute pain\na".
        ("bm25_rewrite", "acute painacute pain a", [("acute pain\na", "query")]),
        ("dense_rewrite_join", "acute pain a", [("acute pain[SEP]a", "query")]),
        ("reasoning_writers", "acute pain a", [("acute pain", "query"), ("a", "document")]),
        ("dense_rewrite_mean", "acute pain a", [("acute pain\na", "query")]),
        ("missing_marker", "acute pain a", [("acute pain\na", "query")]),
    ],
)
def test_each_difference_is_decided_by_its_own_field(field, lexical, dense):
    rewritten = query("acute pain", written("a", "query2doc", reasoning=True))
    rules = Rules(**{field: True})

    assert lexical_query(rewritten, rules) == lexical
    assert list(dense_query(rewritten, rules, "none")) == dense
