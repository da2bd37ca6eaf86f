import json
import logging
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError, DataError, NotAtHand
from r2med_ray.rewriting.methods import METHODS, spelled
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.storage.keys import fingerprint_queries
from r2med_ray.types import Expansion, Query
from tests.fakes import answer
from tests.unit.rewriting_parts import task

QUERIES = (Query(query_id="7", text="acute pain"), Query(query_id="8", text="chronic pain"))


def write_generations(folder, rows, *, method="hyde", writer="qwen-7b"):
    path = folder / method / writer / "query_with_hydoc.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def row(query_id, hy_doc, text=None, **more):
    texts = {query.query_id: query.text for query in QUERIES}
    return {"id": query_id, "text": text or texts.get(str(query_id), ""), "hy_doc": hy_doc, **more}


def replay(folder, *, method="hyde", generations="qwen-7b", compat="none", **settings):
    config = RewriterConfig(method=method, generations=generations, **settings)
    row = METHODS[spelled(method)]
    return ReplayRewriter(config, task=task(folder), method=row, rules=Rules.of(compat))


def replayed(folder, queries=QUERIES, **settings):
    """Replay texts, and check that no demand is made."""
    rewriting, demands = answer(replay(folder, **settings).rewrite(queries), {})
    assert demands == []
    return rewriting


def test_lm05_texts_are_joined_by_id_and_never_by_position(tmp_path):
    write_generations(tmp_path, [row("8", "nerves"), row("7", "injury")])

    rewriting = replayed(tmp_path)

    assert [query.query_id for query in rewriting.queries] == ["7", "8"]
    assert [query.text for query in rewriting.queries] == ["acute pain", "chronic pain"]
    assert rewriting.queries[0].expansions == (Expansion(text="injury", method="hyde"),)
    assert rewriting.queries[1].expansions == (Expansion(text="nerves", method="hyde"),)
    assert rewriting.flagged == {}


def test_a_reasoning_writer_is_known_by_its_folder(tmp_path):
    rows = [row("7", "<think>a</think>injury"), row("8", "<think>b</think>nerves")]
    write_generations(tmp_path, rows, method="search-o1", writer="qwq-32b")

    rewriting = replayed(tmp_path, method="search_o1", generations="qwq_32b")

    assert rewriting.queries[0].expansions == (Expansion(text="injury", method="search-o1", reasoning=True),)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row("7", "a")], r"1 queries have no text, e\.g\. '8'"),
        ([row("7", "a"), row("8", "b"), row("7", "c")], r"jsonl:3: query '7' is in line 1 too"),
        ([row("7", "a"), row("9", "b", text="x"), row("8", "c")], r"jsonl:2: query '9' is not in the task"),
        ([row("7", "a"), row("8", ["b"])], r"jsonl:2: expected the generated text under `hy_doc`, got \['b'\]"),
        (
            [row("7", "a"), {"id": "8", "text": "chronic pain"}],
            r"jsonl:2: expected the generated text under `hy_doc`",
        ),
        ([row(7.0, "a"), row("8", "b")], r"jsonl:1: expected text under `id`, got 7\.0"),
        ([row(True, "a"), row("8", "b")], r"jsonl:1: expected text under `id`, got True"),
    ],
)
def test_lm05_a_file_that_does_not_fit_the_task_is_an_error(tmp_path, rows, message):
    write_generations(tmp_path, rows)

    with pytest.raises(DataError, match=message):
        replayed(tmp_path)


def test_mt09_integer_ids_are_text_with_one_warning(tmp_path, caplog):
    write_generations(tmp_path, [row(7, "injury"), row(8, "nerves")])

    rewriting = replayed(tmp_path)

    assert rewriting.queries[0].expansions[0].text == "injury"
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == [
        "2 ids are JSON numbers and were read as text"
    ]


def test_lm03_unusable_texts_leave_the_query_as_it_was_and_are_listed(tmp_path):
    write_generations(tmp_path, [row("7", "  \n"), row("8", None)])

    rewriting = replayed(tmp_path, max_unusable=1.0)

    assert rewriting.queries == QUERIES
    assert (rewriting.flagged, rewriting.unchanged) == ({"empty": ("7", "8")}, ("7", "8"))


def test_lm03_too_many_unusable_texts_fail_and_are_named(tmp_path):
    write_generations(tmp_path, [row("7", ""), row("8", "nerves")])

    # 1 of 2 is 0.5, which 0.5 allows and 0.4 doesn't
    assert replayed(tmp_path, max_unusable=0.5).queries[0] == QUERIES[0]
    with pytest.raises(DataError, match=r"1 of 2 queries have no usable text .*40% are allowed: 7"):
        replayed(tmp_path, max_unusable=0.4)
    with pytest.raises(DataError, match=r"1 of 2 queries have no usable text .*0% are allowed: 7"):
        replayed(tmp_path, max_unusable=0.5, on_unusable="error")


def test_lm01_a_finish_reason_in_the_file_is_used(tmp_path):
    rows = [row("7", "injury", finish_reason="stop"), row("8", "<think>so", finish_reason="length")]
    write_generations(tmp_path, rows, writer="r1-qwen-32b")

    rewriting = replayed(tmp_path, generations="r1-qwen-32b", max_unusable=1.0)

    assert rewriting.queries[0].expansions[0].text == "injury"
    assert rewriting.flagged == {
        "no closing tag": ("7",),
        "cut at limit": ("8",),
    }
    assert rewriting.unchanged == ("8",)


def test_the_reason_why_a_text_ended_is_a_word(tmp_path):
    write_generations(tmp_path, [row("7", "injury"), row("8", "nerves", finish_reason=["stop"])])

    with pytest.raises(DataError, match=r"jsonl:2: expected a word such as \"stop\" .*got \['stop'\]"):
        replayed(tmp_path)


def test_a_text_that_a_service_broke_off_is_used_and_counted_by_the_services_word(tmp_path):
    write_generations(tmp_path, [row("7", "injury"), row("8", "nerves", finish_reason="repetition")])

    rewriting = replayed(tmp_path)

    assert rewriting.queries[1].expansions[0].text == "nerves"
    assert (rewriting.flagged, rewriting.unchanged) == ({"repetition": ("8",)}, ())


def test_r06_compat_uses_every_text_and_still_counts(tmp_path):
    write_generations(tmp_path, [row("7", "<think>a</think>"), row("8", "<think>so")], writer="qwq-32b")

    rewriting = replayed(tmp_path, generations="qwq-32b", compat="r2med", max_unusable=0.0)

    assert [query.expansions[0].text for query in rewriting.queries] == ["", "<think>so"]
    assert rewriting.flagged == {"empty": ("7",), "no closing tag": ("8",)}


def test_a_text_generated_for_another_wording_is_counted_and_used(tmp_path, caplog):
    write_generations(tmp_path, [row("7", "injury", text="acute pains"), row("8", "nerves")])

    with caplog.at_level(logging.WARNING):
        rewriting = replayed(tmp_path)

    assert rewriting.queries[0].expansions[0].text == "injury"
    assert rewriting.flagged == {"generated for another text": ("7",)}
    assert "1 texts were generated for another wording" in caplog.text


def test_gold_documents_in_the_file_are_never_read(tmp_path):
    write_generations(tmp_path, [row("7", "injury", doc_id=["d1"]), row("8", "nerves", doc_id=17)])

    assert "d1" not in repr(replayed(tmp_path))


@pytest.mark.parametrize("spelling", ["o3-mini", "o3_mini"])
@pytest.mark.parametrize("on_disk", ["o3-mini", "o3_mini"])
def test_underscores_stand_for_dashes_on_both_sides(tmp_path, spelling, on_disk):
    path = write_generations(tmp_path, [], writer=on_disk)

    assert replay(tmp_path, generations=spelling).source.path == path


def test_an_unknown_name_gets_the_nearest_and_all_that_are_there(tmp_path):
    write_generations(tmp_path, [], writer="qwen-7b")
    write_generations(tmp_path, [], writer="gpt4")
    write_generations(tmp_path, [], method="lamer", writer="qwen-72b")

    with pytest.raises(NotAtHand, match=r"Did you mean 'qwen-7b'\? Known: gpt4, qwen-7b$"):
        replay(tmp_path, generations="qwen-7")
    with pytest.raises(NotAtHand, match=r"expected query2doc/gpt4/query_with_hydoc\.jsonl"):
        replay(tmp_path, method="query2doc", generations="gpt4")
    with pytest.raises(ConfigError, match=r"unknown rewriting method 'hide'\. Did you mean 'hyde'\?"):
        replay(tmp_path, method="hide")


def test_a_benchmark_that_skips_what_is_missing_still_shows_the_nearest_name(tmp_path):
    write_generations(tmp_path, [], writer="gpt4")

    with pytest.raises(NotAtHand) as failure:
        replay(tmp_path, generations="gtp4")
    assert failure.value.what == "hyde/gtp4/query_with_hydoc.jsonl (Did you mean 'gpt4'?)"


@pytest.mark.parametrize("compat", ["none", "r2med"])
def test_half_of_a_surrogate_pair_is_named_with_its_line(tmp_path, compat):
    # JSON can spell half of a surrogate pair, UTF-8 can't
    path = tmp_path / "gpt4.jsonl"
    path.write_text('{"id": "7", "text": "q", "hy_doc": "ab\\ud83d"}\n', encoding="utf-8")

    with pytest.raises(DataError, match=r"gpt4\.jsonl:1: character 2 of `hy_doc` is half of a surrogate pair"):
        replayed(tmp_path, [Query(query_id="7", text="q")], generations=str(path), compat=compat)


def test_a_file_can_be_given_by_path(tmp_path):
    path = tmp_path / "qwq-32b.jsonl"
    path.write_text("".join(json.dumps(row(i, "a</think>b")) + "\n" for i in ("7", "8")), encoding="utf-8")

    rewriting = replayed(tmp_path / "elsewhere", generations=str(path))

    assert rewriting.queries[0].expansions == (Expansion(text="b", method="hyde", reasoning=True),)
    with pytest.raises(ConfigError, match="there is no such file"):
        replay(tmp_path, generations="missing.jsonl")


def test_other_texts_give_other_expansions_and_so_other_keys_of_what_is_searched(tmp_path):
    write_generations(tmp_path, [row("7", "a"), row("8", "b")], writer="qwen-7b")
    write_generations(tmp_path, [row("7", "</think>a"), row("8", "</think>b")], writer="qwq-32b")
    write_generations(tmp_path, [row("7", "a"), row("8", "b")], method="lamer")
    write_generations(tmp_path, [row("7", "<think>"), row("8", "b")], writer="gpt4")
    changes = [{}, {"generations": "qwq-32b"}, {"method": "lamer"}]
    changes += [{"generations": "gpt4", "compat": compat, "max_unusable": 1.0} for compat in ("none", "r2med")]
    keys = [fingerprint_queries(replayed(tmp_path, **change).queries) for change in changes]
    assert fingerprint_queries(replayed(tmp_path, max_unusable=0.3).queries) == keys[0]

    write_generations(tmp_path, [row("7", "a"), row("8", "c")], writer="qwen-7b")
    keys.append(fingerprint_queries(replayed(tmp_path).queries))

    assert len(set(keys)) == 6


def test_replayed_texts_are_used_as_their_method_says(tmp_path):
    for method in ("reason", "keywords"):
        write_generations(tmp_path, [row("7", "a"), row("8", "b")], method=method)

    uses = {
        method: replayed(tmp_path, method=method).queries[0].expansions[0].use for method in ("reason", "keywords")
    }
    assert uses == {"reason": "averaged", "keywords": "joined"}


def test_r2med_sample_files_are_read():
    folder = Path(__file__).parents[2].parent / "shared/data/r2med_upstream/dataset/Biology-demo"
    if not folder.is_dir():
        pytest.skip(f"R2MED's sample files are not in {folder}")
    rows = [json.loads(line) for line in (folder / "query.jsonl").open(encoding="utf-8")]
    queries = [Query(query_id=values["id"], text=values["text"]) for values in rows]

    rewriting = replayed(folder, queries)

    assert rewriting.flagged == {}
    assert [len(query.expansions) for query in rewriting.queries] == [1, 1]
