"""A pair that is too long is cut as a tokenizer of transformers cuts it, and nothing around it is touched."""

import pytest

from r2med_ray.models.networks.pair_cuts import PairCut, cut_inside, cut_pair
from tests.unit.tiny_checkpoints import tokenizer


@pytest.mark.parametrize(
    ("query", "document", "room", "kept"),
    [
        pytest.param(3, 4, 7, (3, 4), id="fits"),
        pytest.param(3, 9, 10, (3, 7), id="the passage is cut to what the query leaves"),
        pytest.param(9, 3, 10, (7, 3), id="a short passage stays whole"),
        pytest.param(60, 30, 32, (16, 16), id="a query that leaves a passage less than half is cut itself"),
        pytest.param(9, 9, 7, (3, 4), id="an odd room"),
        pytest.param(9, 9, 0, (0, 0), id="no room"),
    ],
)
def test_each_text_has_half_of_the_room_or_is_whole(
    query: int, document: int, room: int, kept: tuple[int, int]
) -> None:
    assert cut_pair(query, document, room) == PairCut(query, document, *kept)


def test_a_tokenizer_of_transformers_cuts_pairs_by_the_same_rule() -> None:
    for query in range(1, 14):
        for document in range(1, 14):
            for room in range(2, 12):
                encoded = tokenizer()(
                    ["fever " * query], ["rash " * document], truncation="longest_first", max_length=room + 3
                )
                sides = encoded.sequence_ids(0)
                assert cut_pair(query, document, room)[2:] == (sides.count(0), sides.count(1)), (
                    query,
                    document,
                    room,
                )


@pytest.mark.parametrize("most", [9, 12, 20])
def test_what_is_around_query_and_document_stays(most: int) -> None:
    begin, query, between, document = "query : ", "fever and rash ", "document : ", "heart attack and heart failure"
    encoding = tokenizer()([begin + query + between + document], add_special_tokens=False).encodings[0]
    ends = len(begin) + len(query)

    ids, cut = cut_inside(encoding, (len(begin), ends), ends + len(between), most)

    # 2 + 3 + 2 + 5 tokens; `room` is what the 4 tokens around the two leave.
    assert cut == cut_pair(3, 5, most - 4)
    kept_query, kept_document = query.split()[: cut.kept_query], document.split()[: cut.kept_document]
    text = " ".join(["query :", *kept_query, "document :", *kept_document])
    assert tokenizer().decode(ids) == text


def test_a_token_that_reaches_over_the_edge_of_a_query_is_kept() -> None:
    # Without a blank between them, the prompt and the query's first word are one token.
    encoding = tokenizer()(["heartfever document : rash rash"], add_special_tokens=False).encodings[0]
    assert encoding.tokens[:2] == ["heart", "##fe"]

    ids, cut = cut_inside(encoding, (6, 10), 22, 5)

    assert ids[:2] == encoding.ids[:2]
    assert cut.query < 3
