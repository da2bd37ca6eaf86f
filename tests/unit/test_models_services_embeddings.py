import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split, WhitespaceSplit

from r2med_ray.cuts import Cuts
from r2med_ray.errors import DataError, NotAtHand, StageError
from r2med_ray.models.catalog.call_policy import CallPolicy
from r2med_ray.models.catalog.services import ApiEncoderRow
from r2med_ray.models.services.embeddings import ApiEncoder
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document
from tests.http_services import Answer, Reply, Request, Service, as_json, embeddings, garbage, half, refuse, slow

QUICK = CallPolicy(max_in_flight=2, timeout_s=5, attempts=3, deadline_s=10, base_wait_s=0.01, max_wait_s=0.02)


def vector_of(text: str) -> list[float]:
    """Return a vector whose direction differs for every number of characters."""
    return [1.0, float(len(text)), 0.0]


SERVING = embeddings(vector_of)


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    """A tokenizer whose tokens are the words between spaces."""
    words = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = WhitespaceSplit()
    words.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path)


Build = Callable[..., ApiEncoder]


@pytest.fixture
def build(tokenizer: str, tmp_path: Path) -> Build:
    """A function that returns an encoder over a service. All encoders of a test share one store."""

    def build(service: Service, **changes: Any) -> ApiEncoder:
        given: dict[str, Any] = {
            "name": "m",
            "model": "the-model",
            "base_url": service.url,
            "dimension": 3,
            "tokenizer": tokenizer,
            "max_length": 20,
            "max_input_tokens": 30,
            "batch_tokens": 100,
            "batch_texts": 2,
            "calls": QUICK,
        }
        return ApiEncoder(ApiEncoderRow(**given | changes), ArtifactStore(str(tmp_path / "store")))

    return build


def documents(*texts: str) -> list[Document]:
    return [Document(doc_id=f"d{number}", text=text) for number, text in enumerate(texts)]


def inputs(service: Service) -> list[list[str]]:
    return sorted(request.body["input"] for request in service.requests)


def test_texts_are_embedded_in_their_order_and_with_unit_length(build: Build):
    with Service(SERVING) as service:
        vectors_QD = build(service).encode_queries(["a", "bbb", "cc"])

    # (1, n) / √(1 + n²) for n = 1, 3, 2.
    expected = [[1 / 2**0.5, 1 / 2**0.5, 0], [1 / 10**0.5, 3 / 10**0.5, 0], [1 / 5**0.5, 2 / 5**0.5, 0]]
    assert vectors_QD.dtype == np.float32
    np.testing.assert_allclose(vectors_QD, expected, rtol=1e-6)


def test_vectors_that_are_compared_by_dot_product_stay_as_they_come(build: Build):
    with Service(SERVING) as service:
        np.testing.assert_array_equal(
            build(service, similarity="dot").encode_queries(["a", "bbb"]), [[1, 1, 0], [1, 3, 0]]
        )


def test_a_vector_of_zeros_stays_one(build: Build):
    with Service(embeddings(lambda text: [0.0, 0.0, 0.0])) as service:
        np.testing.assert_array_equal(build(service).encode_queries(["a"]), [[0, 0, 0]])


def test_no_texts_are_no_request(build: Build):
    with Service(SERVING) as service:
        assert build(service).encode_documents([]).shape == (0, 3)
        assert service.requests == []


def test_a_request_says_model_and_side(build: Build):
    bodies = {
        "body": {"truncation": False},
        "query_body": {"input_type": "query"},
        "document_body": {"input_type": "document"},
    }
    with Service(SERVING) as service:
        encoder = build(service, **bodies)
        encoder.encode_queries(["q"])
        encoder.encode_documents(documents("d"))
        encoder.encode_plain(["p"])

        common = {"model": "the-model", "truncation": False}
        assert [request.body for request in service.requests] == [
            {**common, "input": ["q"], "input_type": "query"},
            {**common, "input": ["d"], "input_type": "document"},
            {**common, "input": ["p"]},
        ]
        assert {request.path for request in service.requests} == {"/v1/embeddings"}


def test_a_document_is_title_and_text(build: Build):
    with Service(SERVING) as service:
        build(service).encode_documents([Document(doc_id="d", title="Title", text="text")])
        assert inputs(service) == [["Title text"]]


def test_a_plain_text_is_sent_as_it_is(build: Build):
    with Service(SERVING) as service:
        build(service).encode_queries(['two\nlines, "é"'])
        assert inputs(service) == [['two\nlines, "é"']]


def test_a_json_quoted_text_has_its_exact_published_bytes_on_the_wire(build: Build):
    with Service(SERVING) as service:
        build(service, input_format="json-quoted").encode_queries(["aé\nb"])

        # The text is: quote, a, backslash, u00e9, a space for the newline, b, quote. The request itself is JSON, so
        # its bytes escape every quote and backslash of the text once more.
        assert inputs(service) == [[r'"a\u00e9 b"']]
        assert rb'["\"a\\u00e9 b\""]' in service.requests[0].content.replace(b", ", b",")


def test_only_newlines_become_blanks_when_a_text_is_quoted(build: Build):
    with Service(SERVING) as service:
        build(service, input_format="json-quoted").encode_queries(["a\r\n\n\tb"])
        assert inputs(service) == [[r'"a\r  \tb"']]


def test_batches_end_at_their_number_of_texts_or_tokens(build: Build):
    with Service(SERVING) as service:
        build(service, batch_texts=3, batch_tokens=5, max_length=5, max_input_tokens=5).encode_queries(
            ["1 2", "1 2 3", "1", "1 2 3 4 5", "a", "b", "c", "d"]
        )
        assert inputs(service) == sorted([["1 2", "1 2 3"], ["1"], ["1 2 3 4 5"], ["a", "b", "c"], ["d"]])


def test_a_long_text_is_cut_after_its_last_whole_token(build: Build):
    with Service(SERVING) as service:
        encoder = build(service, max_length=3)
        encoder.encode_queries(["one  two three four", "one two"])
        assert inputs(service) == [["one  two three", "one two"]]
    # 4 + 2 tokens, of which one isn't sent.
    assert encoder.take_cuts() == {"query": Cuts(texts=2, cut=1, tokens=6, lost=1, lengths=(3,))}


def test_a_text_that_is_too_long_in_spite_of_its_cut_is_named_and_nothing_is_sent(build: Build, tmp_path: Path):
    characters = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    characters.pre_tokenizer = Split(Regex("."), "isolated")
    (tmp_path / "characters").mkdir()
    characters.save(str(tmp_path / "characters" / "tokenizer.json"))
    with Service(SERVING) as service:
        encoder = build(
            service,
            tokenizer=str(tmp_path / "characters"),
            max_length=4,
            max_input_tokens=7,
            input_format="json-quoted",
        )
        # The first 4 characters of "abcde" are kept, which are 6 with the quotes. "é" is 1 character, and 8 when
        # quoted.
        with pytest.raises(DataError, match=r"document 'd1': its text is 8 tokens long .*json-quoted.*; m takes 7"):
            encoder.encode_documents(documents("abcde", "é"))
        assert service.requests == []


def test_an_empty_text_is_named_and_nothing_is_sent(build: Build):
    with Service(SERVING) as service:
        with pytest.raises(DataError, match="document 'd1': its text is empty"):
            build(service).encode_documents(documents("a", ""))
        assert service.requests == []


def test_a_text_that_occurs_twice_is_sent_once(build: Build):
    with Service(SERVING) as service:
        encoder = build(service)
        vectors_QD = encoder.encode_queries(["a", "bb", "a", "ccc", "a"])
        assert inputs(service) == [["a", "bb"], ["ccc"]]

    np.testing.assert_array_equal(vectors_QD[[2, 4]], vectors_QD[[0, 0]])
    assert encoder.take_usage()["sent"] == 3
    assert set(encoder.take_usage().values()) == {0}


def permuted(request: Request) -> Reply:
    answer = json.loads(SERVING(request).content)
    return as_json({**answer, "data": answer["data"][::-1]})


def test_vectors_are_put_in_order_by_their_index(build: Build):
    with Service(permuted) as service:
        backwards = build(service, batch_texts=4).encode_queries(["a", "bb", "ccc", "dddd"])
    with Service(SERVING) as service:
        np.testing.assert_array_equal(build(service).encode_queries(["a", "bb", "ccc", "dddd"]), backwards)


def test_the_order_in_which_answers_arrive_changes_nothing(build: Build):
    def first_is_slow(request: Request) -> Reply:
        return slow(SERVING, 0.2)(request) if "a" in request.body["input"] else SERVING(request)

    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    with Service(first_is_slow) as service:
        late = build(service, similarity="dot").encode_queries(texts)

    np.testing.assert_array_equal(late, [[1, n, 0] for n in (1, 2, 3, 4, 5)])


def changed(**changes: Any) -> Answer:
    """An answer whose first vector has changed entries."""

    def answer(request: Request) -> Reply:
        reply = json.loads(SERVING(request).content)
        reply["data"][0].update(changes)
        return as_json(reply)

    return answer


def one_less(request: Request) -> Reply:
    reply = json.loads(SERVING(request).content)
    return as_json({**reply, "data": reply["data"][1:]})


@pytest.mark.parametrize(
    "trouble",
    [
        garbage(),
        garbage("[1, 2", "application/json"),
        garbage('{"data": "?"}', "application/json"),
        as_json({"object": "list"}),
        half(SERVING),
        one_less,
        changed(index=1),
        changed(index=7),
        changed(embedding=[1.0, float("nan"), 0.0]),
        changed(embedding="AACAPw=="),
        refuse(429, retry_after="0"),
        refuse(500),
    ],
)
def test_an_answer_that_makes_no_sense_is_asked_for_again(build: Build, trouble: Answer | Reply):
    with Service(SERVING) as service:
        service.trouble((lambda request: trouble) if isinstance(trouble, Reply) else trouble)
        encoder = build(service, similarity="dot")
        np.testing.assert_array_equal(encoder.encode_queries(["a", "bb"]), [[1, 1, 0], [1, 2, 0]])
        assert len(service.requests) == 2

    # A token is a character, so there are 1 + 2. Only the answer that was used is counted.
    assert encoder.take_usage() == {"sent": 2, "stored": 0, "tokens": 3, "requests": 2, "repeated": 1}


def test_a_service_with_another_number_of_vectors_for_ever_is_an_error_with_both_numbers(build: Build):
    with Service(one_less) as service, pytest.raises(StageError, match=r"'d0' and 1 others.*1 vectors for 2 texts"):
        build(service).encode_documents(documents("a", "b"))


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: as_json({"error": {"message": f"no room {'for this ' * 20}request"}}),
        garbage(f"<html>no room {'for this ' * 20}request</html>"),
        garbage(f"no room {'for this ' * 20}request", "application/json"),
    ],
)
def test_what_a_service_says_in_place_of_vectors_is_quoted(build: Build, answer: Answer) -> None:
    with Service(answer) as service, pytest.raises(StageError) as raised:
        build(service).encode_queries(["a"])

    assert f"the service sent: no room {'for this ' * 20}request" in str(raised.value)


def test_another_dimension_is_an_error_with_both_numbers_and_not_asked_for_again(build: Build):
    with Service(SERVING) as service:
        with pytest.raises(DataError, match=r"document 'd0': m answered with .* 3 dimensions; its row says 4"):
            build(service, dimension=4).encode_documents(documents("a"))
        assert len(service.requests) == 1


def test_what_was_answered_before_a_failure_is_kept_and_a_second_run_asks_only_for_the_rest(build: Build):
    def no_five(request: Request) -> Reply:
        return refuse(500, "broken")(request) if "e" in request.body["input"] else SERVING(request)

    corpus = documents("a", "b", "c", "d", "e")
    with Service(no_five) as service:
        with pytest.raises(StageError, match=r"encode with m failed on document 'd4', after 3 attempts.*500: broken"):
            build(service).encode_documents(corpus)
        assert len(service.requests) == 2 + QUICK.attempts

        service.forget()
        service.answer = SERVING
        encoder = build(service)
        encoder.encode_documents(corpus)
        assert inputs(service) == [["e"]]
        assert encoder.take_usage() == {"sent": 1, "stored": 4, "tokens": 1, "requests": 1, "repeated": 0}


def test_what_is_stored_needs_neither_service_nor_key(build: Build, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_KEY", "sk-1")
    with Service(SERVING) as service:
        first = build(service, key_variable="SOME_KEY").encode_queries(["a", "bb", "ccc"])

    monkeypatch.delenv("SOME_KEY")
    encoder = build(service, key_variable="SOME_KEY")
    np.testing.assert_array_equal(encoder.encode_queries(["a", "bb", "ccc"]), first)
    assert encoder.take_usage() == {"sent": 0, "stored": 3, "tokens": 0, "requests": 0, "repeated": 0}


def test_a_missing_key_is_named(build: Build, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    with Service(SERVING) as service, pytest.raises(NotAtHand, match="SOME_KEY"):
        build(service, key_variable="SOME_KEY").encode_queries(["a"])


@pytest.mark.parametrize(
    "changes",
    [{"model": "another"}, {"query_body": {"input_type": "query"}}, {"input_format": "json-quoted"}],
)
def test_an_answer_to_another_question_is_not_taken(build: Build, changes: dict[str, Any]):
    with Service(SERVING) as service:
        build(service).encode_queries(["a"])
        build(service, **changes).encode_queries(["a"])
        assert len(service.requests) == 2


def test_no_more_requests_are_in_flight_than_the_row_allows(build: Build):
    with Service(slow(SERVING, 0.05)) as service:
        build(service).encode_queries([str(number) for number in range(16)])
        assert service.most_at_once == 2


def test_a_service_that_counts_no_tokens_has_them_counted_by_the_tokenizer(build: Build):
    def uncounted(request: Request) -> Reply:
        answer = json.loads(SERVING(request).content)
        del answer["usage"]
        return as_json(answer)

    with Service(uncounted) as service:
        encoder = build(service)
        encoder.encode_queries(["one two", "three"])

    assert encoder.take_usage()["tokens"] == 3
