"""A question gets the ranking that the benchmark has for it, step by step; nothing of it is kept."""

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from r2med_ray.chat import Completion
from r2med_ray.first_stage import Computing
from r2med_ray.live import answers
from r2med_ray.live.answers import scorer_key
from r2med_ray.live.preparing import Prepared, prepare
from r2med_ray.live.searcher import Searched, Searcher
from r2med_ray.pipeline import Ranked
from r2med_ray.serving.search_answers import Event, SearchAnswer, SearchRequest, gathered
from r2med_ray.settings.config_files import load_with
from r2med_ray.systems import resolve
from r2med_ray.types import Query
from r2med_ray.workbench.bench import Workbench, open_workbench
from tests.http_services import Service, calling, completions, half, refuse
from tests.live_benchmarks import SYSTEMS, scripted, write_benchmark

TWICE = {
    "name": "twice",
    "retriever": {"model": "all-MiniLM-L6-v2", "embed_dim": 100, "output_dtype": "int8"},
    "reranker": {"model": "again", "depth": 5},
}
TOKENS = {"name": "tokens", "retriever": "minilm-tokens"}
RANKED = [system["name"] for system in (TWICE, TOKENS, *SYSTEMS)]
CASCADE = {
    "name": "cascade",
    "retriever": "bm25",
    "rerankers": [{"model": "maxsim-minilm", "depth": 5}, {"model": "judge", "depth": 3}],
}
AGENT = {
    "name": "agent",
    "retriever": "bm25",
    "rewriter": {"method": "retrieval-agent", "llm": "scripted", "agent": {"retriever": "bm25", "max_turns": 2}},
}


class Live(NamedTuple):
    """A searcher, and the workbench that a benchmark uses."""

    searcher: Searcher
    bench: Workbench
    prepared: Prepared
    service: Service

    def events(self, question: str, system: str, *, stop: threading.Event | None = None, k: int = 10) -> list[Event]:
        told: list[Event] = []
        request = SearchRequest(question=question, system=system, task="Demo-Posts", k=k)
        self.searcher.search(request, told.append, stop or threading.Event())
        return told

    def ask(self, question: str, system: str, k: int = 10) -> SearchAnswer:
        return gathered(self.events(question, system, k=k))

    def ranked(self, system: str) -> Ranked:
        return self.bench.rank(self.prepared.tasks["Demo-Posts"], self.prepared.systems[system])

    @property
    def queries(self) -> tuple[Query, ...]:
        return self.prepared.tasks["Demo-Posts"].queries


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("live")
    with Service(completions(scripted)) as service:
        benchmark = load_with(
            resolve, write_benchmark(folder, service.url, systems=[*SYSTEMS, TWICE, TOKENS, CASCADE, AGENT])
        )
        with open_workbench(folder / "store", names=benchmark.names, resources=benchmark.config.resources) as bench:
            prepared = prepare(benchmark, bench)
            scorers = [scorer for system in prepared.systems.values() for scorer in system.scorers]
            searched = Searched(
                store=bench.store.uri,
                tasks=prepared.tasks,
                systems=prepared.systems,
                computing=Computing(device=bench.runner.device),
                scorers={scorer_key(scorer): bench.runner.start_scorer(scorer, 1) for scorer in scorers},
                addresses={},
                pair_budget=bench.runner.pair_budget,
            )
            yield Live(Searcher.open(searched), bench, prepared, service)


def final(answer: SearchAnswer) -> list[tuple[str, float]]:
    last = answer.reranked or answer.fused or answer.retrieved[0]
    return [(passage.doc_id, passage.score) for passage in last.passages]


@pytest.mark.parametrize("system", RANKED)
def test_a_question_of_the_benchmark_gets_the_benchmarks_ranking(live: Live, system: str) -> None:
    answers = {query.query_id: live.ask(query.text, system) for query in live.queries[:4]}

    run = live.ranked(system).run
    for query_id, answer in answers.items():
        assert final(answer) == [(hit.doc_id, hit.score) for hit in run.rankings[query_id][:10]]
        assert answer.query_id == query_id


@pytest.mark.parametrize("system", ["tokens", "hybrid+maxsim"])
def test_the_sentences_that_late_interaction_found_are_told_with_its_list_and_with_no_other(
    live: Live, system: str
) -> None:
    answer = live.ask(live.queries[0].text, system, k=3)

    made = answer.reranked or answer.retrieved[0]
    for passage in made.passages:
        percents = [each.percent for each in passage.sentences]
        assert percents == sorted(percents, reverse=True)
        assert 0 < sum(percents) <= 101  # each is rounded; special tokens have the rest
        for each in passage.sentences:
            # No passage has a title. A sentence begins behind another one or with the text, and ends with a mark.
            before = passage.text[: each.start].rstrip()
            assert before == "" or before[-1] in ".!?"
            assert passage.text[each.stop - 1] in ".!?"
    others = [*answer.retrieved, answer.fused] if answer.reranked else []
    assert not any(passage.sentences for each in others if each for passage in each.passages)


def test_every_step_is_told_in_its_order_with_its_passages(live: Live) -> None:
    query = live.queries[0]

    events = live.events(query.text, "hybrid+maxsim", k=3)

    assert [each["event"] for each in events] == ["begun", "retrieved", "retrieved", "fused", "reranked", "done"]
    answer = gathered(events)
    assert [each.name for each in answer.retrieved] == ["bm25", "all-MiniLM-L6-v2"]
    assert answer.fused is not None
    assert answer.reranked is not None
    assert [len(each.passages) for each in (*answer.retrieved, answer.fused, answer.reranked)] == [3, 3, 3, 3]
    places = {passage.doc_id: passage.rank for passage in answer.retrieved[0].passages}
    for passage in answer.fused.passages:
        assert passage.before["bm25"] == places.get(passage.doc_id, passage.before["bm25"])
        assert passage.before.keys() == {"bm25", "all-MiniLM-L6-v2"}
    assert all(passage.before.keys() == {"rrf"} for passage in answer.reranked.passages)
    documents = live.prepared.tasks["Demo-Posts"].qrels[query.query_id]
    for passage in answer.reranked.passages:
        assert passage.grade == documents.get(passage.doc_id)
        assert passage.text


def searching(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the calls of an agent: it searches for the question's words, and answers with the first passage."""
    if messages[-1]["role"] == "tool":
        return [("final_results", json.dumps({"ids": ["p1"]}))]
    question = messages[1]["content"].split("Question:\n")[1]
    return [("retrieve", json.dumps({"query": " ".join(question.split()[:12])}))]


def texts_of(events: Sequence[Event]) -> dict[str, str]:
    """Return what a reader of the events sees at the end: unit of a prompt → text."""
    written: dict[str, str] = {}
    for each in events:
        if each["event"] == "writing":
            written[each["unit"]] = ("" if each["again"] else written[each["unit"]]) + each["text"]
    return written


def test_texts_are_told_as_they_are_written_and_then_whole(live: Live) -> None:
    events = live.events("What is wrong with me?", "bm25+hyde")

    written = texts_of(events)
    answer = gathered(events)
    assert answer.rewritten is not None
    assert [text.text for text in answer.rewritten.texts] == list(written.values())
    assert len(written) == 2
    assert sum(each["event"] == "writing" for each in events) > 10
    assert all(text.startswith("A rash after a fever.") for text in written.values())


def test_a_text_that_broke_off_and_is_written_again_takes_the_place_of_its_beginning(live: Live) -> None:
    live.service.trouble(half(completions(scripted)))

    events = live.events("What breaks off?", "bm25+hyde")

    answer = gathered(events)
    assert answer.rewritten is not None
    assert [text.text for text in answer.rewritten.texts] == list(texts_of(events).values())
    # Two texts are begun, and one of them a second time.
    assert sum(each["event"] == "writing" and each["again"] for each in events) == 3


def test_a_text_that_the_benchmark_has_is_not_written_again(live: Live) -> None:
    live.ranked("bm25+hyde")
    live.service.forget()

    events = live.events(live.queries[0].text, "bm25+hyde")

    assert not live.service.requests
    assert "writing" not in {each["event"] for each in events}


def test_the_same_question_again_asks_the_language_model_for_nothing(live: Live) -> None:
    first = live.ask("What comes twice?", "bm25+hyde")
    live.service.forget()

    events = live.events("What comes twice?", "bm25+hyde")

    assert not live.service.requests
    assert "writing" not in {each["event"] for each in events}
    again = gathered(events)
    assert (again.rewritten and again.rewritten.texts) == (first.rewritten and first.rewritten.texts)
    assert final(again) == final(first)


def test_only_the_last_texts_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "TEXTS_IN_MEMORY", 2)
    last = answers.LastTexts()
    for name in "abc":
        last.keep(name, Completion(text=name, reasoning="", finish_reason="stop"))

    assert {name: text.text for name, text in last.find("abc").items()} == {"b": "b", "c": "c"}


def test_a_question_of_ones_own_has_no_gold_marks_and_leaves_nothing_in_the_store(live: Live) -> None:
    for system in RANKED[:-1]:
        live.ranked(system)
    before = live.bench.store.names()

    for system in RANKED[:-1]:
        answer = live.ask("a child with fever and a red rash", system)
        assert (answer.query_id, answer.relevant) == (None, None)
        assert answer.retrieved[0].passages
        assert {passage.grade for each in answer.retrieved for passage in each.passages} == {None}
    assert live.bench.store.names() == before


def test_a_system_that_replays_texts_says_that_it_has_none_for_a_question_of_ones_own(live: Live) -> None:
    [event] = live.events("a child with fever", "replayed")

    assert (event["event"], event["status"]) == ("error", 422)
    assert event["detail"].startswith("system 'replayed' uses texts that were written earlier")
    assert [system.name for system in live.prepared.offer.systems if system.replays] == ["replayed"]


def test_a_question_that_nobody_waits_for_is_not_worked_on(live: Live) -> None:
    left = threading.Event()
    left.set()

    events = live.events("a child with fever", "hybrid", stop=left)

    assert [each["event"] for each in events] == ["begun"]


def test_what_a_service_says_about_its_failure_is_the_answer(live: Live) -> None:
    live.service.trouble(refuse(401, "no such key"), refuse(401, "no such key"))
    event = live.events("a question that nobody wrote about", "bm25+hyde")[-1]
    live.service.forget()

    assert (event["event"], event["status"]) == ("error", 502)
    assert "no such key" in event["detail"]


def test_two_visitors_who_ask_the_same_at_once_get_the_same(live: Live) -> None:
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(final(live.ask(live.queries[1].text, "hybrid"))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(answers) == 8
    assert all(answer == answers[0] for answer in answers)


def test_a_cascade_bears_an_answer_that_can_not_be_read_and_tells_its_end(live: Live) -> None:
    live.service.answer = completions(lambda prompt: "no order of passages")
    events = live.events(live.queries[0].text, "cascade", k=3)
    live.service.answer = completions(scripted)

    answer = gathered(events)
    assert answer.reranked is not None
    assert answer.reranked.name == "maxsim-minilm → judge"
    assert {event["step"] for event in events if event["event"] == "writing"} == {"reranking"}
    assert [passage.before.keys() for passage in answer.reranked.passages] == [{"bm25"}] * 3


def test_the_list_that_an_agent_made_itself_is_told_without_a_search_of_the_system(live: Live) -> None:
    live.service.answer = calling(searching)
    answer = live.ask(live.queries[0].text, "agent", k=2)
    live.service.answer = completions(scripted)

    assert answer.retrieved == [], answer.rewritten
    assert answer.fused is not None
    assert answer.fused.name == "retrieval-agent"
    assert answer.fused.passages


def test_a_folder_for_questions_is_empty_between_questions(live: Live) -> None:
    scratch = Path(live.searcher._scratch.name)
    before = sorted(path.name for path in scratch.glob("*/*"))

    live.ask("a question that is new", "minilm")

    assert sorted(path.name for path in scratch.glob("*/*")) == before
