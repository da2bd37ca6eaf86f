"""One driver answers the demands of all parts once, in few large batches, and never starts more than fits."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.corpus.convert import convert_documents, load_corpus
from r2med_ray.demands import Ask, Expect, Find, Read, Score, Steps
from r2med_ray.errors import ContextError, DataError, NotAtHand, StageError
from r2med_ray.first_stage import FirstStage, ShardedFirstStage
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.preparation import Corpora, QuerySet
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.protocols import Candidates
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query, Reranking, Run, Task
from r2med_ray.workbench import serving_batches
from r2med_ray.workbench.driver import Driver
from r2med_ray.workbench.in_process import PlainIndex
from r2med_ray.workbench.parts import Ended, Part
from r2med_ray.workbench.worklog import Worklog
from tests.fakes import ScriptedGenerator, wait_until
from tests.unit.scripted_runner import ScriptedModel, ScriptedRunner, ScriptedScorer, fetch

DOCUMENTS = {"d1": "measles brings fever and a rash", "d2": "asthma narrows the airways", "d3": "fever alone"}
QUERIES = (Query(query_id="q1", text="fever"), Query(query_id="q2", text="airways"))
MODEL, SCORER = ScriptedModel(), ScriptedScorer()


BM25 = LexicalFirstStage(row=BM25_ROWS["bm25"], rules=Rules())


def task_of(store: ArtifactStore, name: str) -> Task:
    documents = [Document(doc_id=doc_id, text=f"{text} {name}") for doc_id, text in DOCUMENTS.items()]
    corpus = load_corpus(convert_documents(documents, store, name=name, documents_per_shard=2, shards=None))
    return Task(name=name, suite=name, revision="1", corpus=corpus, queries=QUERIES, qrels={}, folder="")


@pytest.fixture
def task(store: ArtifactStore) -> Task:
    return task_of(store, "one")


def prompt(text: str) -> ChatPrompt:
    return ChatPrompt(unit=f"query {text!r}", messages=({"role": "user", "content": text},), seed=1)


def finding(task: Task, queries: Sequence[Query] = QUERIES, first_stage: FirstStage = BM25) -> Steps[Run]:
    run: Run = yield Find(task=task, first_stage=first_stage, queries=tuple(queries), k=2)
    return run


def asking(*texts: str) -> Steps[list[str | None]]:
    completions = yield Ask(model=MODEL, prompts=tuple(map(prompt, texts)))
    return [completion.text if completion else None for completion in completions]


def writing_then_finding(task: Task, text: str) -> Steps[Run]:
    yield Expect(searches=((task, BM25),), models=(MODEL,))
    [written] = yield from asking(text)
    yield Expect()
    return (yield from finding(task, [Query(query_id="q1", text=written or "")]))


def conversation(task: Task, turns: int) -> Steps[int]:
    """Ask a model and search in turn, as an agent does, then ask for the answer. Return the number of turns."""
    yield Expect(searches=((task, BM25),), models=(MODEL,))
    for turn in range(turns):
        [request] = yield from asking(f"{task.name} turn {turn}")
        yield Find(task=task, first_stage=BM25, queries=(Query(query_id="request", text=request or ""),), k=1)
    yield from asking(f"{task.name} answer")
    yield Expect()
    return turns


class Echo(ScriptedGenerator):
    """A model that answers every prompt with the prompt's own text."""

    def __init__(self) -> None:
        super().__init__(_Echoes())


class _Echoes(Mapping[str, str]):
    def __getitem__(self, text: str) -> str:
        return text

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


def run(
    store: ArtifactStore, parts: Mapping[str, Steps[Any]], **settings: Any
) -> tuple[dict[str, Any], ScriptedRunner, Worklog]:
    """Return the result or the error of each part, the runner, and the runner's log."""
    worklog = Worklog()
    runner = ScriptedRunner(store, worklog, **settings)
    outcomes = dict(Driver(store, runner, worklog, fetch).run(parts))
    results = {name: ended.result if isinstance(ended, Ended) else ended for name, ended in outcomes.items()}
    return results, runner, worklog


def ids(run: Run) -> dict[str, list[str]]:
    return {query_id: [hit.doc_id for hit in ranking] for query_id, ranking in run.rankings.items()}


def test_a_search_is_made_once_and_read_afterwards(store: ArtifactStore, task: Task) -> None:
    first, _, log = run(store, {"a": finding(task)})
    again, runner, _ = run(store, {"b": finding(task)})

    assert ids(first["a"])["q2"] == ["d2"]
    assert again["b"] == first["a"]
    assert runner.calls == []
    assert [(entry.stage, entry.report.documents) for entry in log.entries] == [("tokenize", 3)]


class HoldsNothing(ScriptedRunner):
    def holds_shards(self, held_bytes: int) -> bool:
        assert held_bytes > 0
        return False


def test_a_search_that_reads_its_shards_one_by_one_finds_the_same_and_is_noted(
    store: ArtifactStore, task: Task, tmp_path: Path
) -> None:
    worklog, other = Worklog(), ArtifactStore(str(tmp_path / "other"))
    runner = HoldsNothing(other, worklog)
    parts = {"streamed": finding(task_of(other, task.name))}

    [(_, ended)] = Driver(other, runner, worklog, fetch).run(parts)

    [held] = run(store, {"held": finding(task)})[0].values()
    assert isinstance(ended, Ended)
    assert ended.result.rankings == held.rankings
    noted = {(entry.stage, entry.unit): entry.report.documents for entry in worklog.entries}
    assert noted["search shards read one by one", f"bm25 on {task.name}"] == task.corpus.num_documents


def test_two_parts_that_search_alike_are_one_search(store: ArtifactStore, task: Task) -> None:
    results, runner, _ = run(store, {"a": finding(task), "b": finding(task)})

    assert results["a"] == results["b"]
    assert runner.calls == ["prepare one", "open one"]
    assert len(store.names_of("run")) == 1


def test_a_run_that_is_not_to_be_kept_is_not_stored(store: ArtifactStore, task: Task) -> None:
    def steps() -> Steps[Run]:
        found: Run = yield Find(task=task, first_stage=BM25, queries=QUERIES, k=2, keep=False)
        return found

    results, _, _ = run(store, {"a": steps()})

    assert ids(results["a"])["q2"] == ["d2"]
    assert store.names_of("run") == []


def test_a_run_is_stored_if_one_of_those_who_ask_wants_to_keep_it(store: ArtifactStore, task: Task) -> None:
    def passing() -> Steps[Run]:
        found: Run = yield Find(task=task, first_stage=BM25, queries=QUERIES, k=2, keep=False)
        return found

    results, _, _ = run(store, {"a": passing(), "b": finding(task)})

    assert results["a"] == results["b"]
    assert len(store.names_of("run")) == 1


def test_what_a_part_was_given_is_named_in_the_order_of_its_demands(store: ArtifactStore) -> None:
    one, two = task_of(store, "one"), task_of(store, "two")

    def both() -> Steps[None]:
        yield tuple(Find(task=task, first_stage=BM25, queries=QUERIES, k=2) for task in (one, two))

    def names() -> tuple[str, ...]:
        runner = ScriptedRunner(store, Worklog())
        [(_, ended)] = Driver(store, runner, Worklog(), fetch).run({"a": both()})
        assert isinstance(ended, Ended)
        return ended.artifacts

    run(store, {"a": finding(two)})  # now only the second of the two is stored
    assert names() == names()
    assert len(set(names())) == 2


def test_several_demands_at_once_are_answered_in_their_order(store: ArtifactStore, task: Task) -> None:
    def steps() -> Steps[tuple[Run, list[Completion], Mapping[str, Document]]]:
        found, texts, documents = yield (
            Find(task=task, first_stage=BM25, queries=QUERIES, k=2),
            Ask(model=MODEL, prompts=(prompt("x"),)),
            Read(task=task, doc_ids=frozenset({"d3"})),
        )
        return found, texts, documents

    results, _, _ = run(store, {"a": steps()}, generator=Echo())
    found, texts, documents = results["a"]

    assert ids(found)["q2"] == ["d2"]
    assert [text.text for text in texts] == ["x"]
    assert documents["d3"].text == "fever alone one"


def test_prompts_of_all_parts_are_one_batch_and_equal_ones_are_asked_once(store: ArtifactStore) -> None:
    model = Echo()
    results, _, _ = run(store, {"a": asking("x", "y"), "b": asking("y", "z")}, generator=model)

    assert results == {"a": ["x", "y"], "b": ["y", "z"]}
    [call] = model.calls
    assert sorted(item.messages[-1]["content"] for item in call) == ["x", "y", "z"]
    assert {item.unit for item in call} == {"a, query 'x'", "b, query 'y'", "b, query 'z'"}


def test_a_language_model_is_started_only_for_texts_that_are_not_stored(store: ArtifactStore) -> None:
    run(store, {"a": asking("x", "y")}, generator=Echo())
    results, runner, _ = run(store, {"b": asking("y", "x"), "c": asking()}, generator=Echo())

    assert results == {"b": ["y", "x"], "c": []}
    assert runner.calls == []


def test_what_the_store_answers_alone_is_told_from_what_needs_work(store: ArtifactStore) -> None:
    run(store, {"a": asking("x")}, generator=Echo())
    driver = Driver(store, ScriptedRunner(store, Worklog()), Worklog(), fetch)

    assert driver.stored(Part("b", asking("x"))) == ["x"]
    assert driver.stored(Part("c", asking("x", "y"))) is None


def test_one_text_of_a_model_at_two_addresses_is_asked_for_once(store: ArtifactStore) -> None:
    class Elsewhere(ScriptedModel):
        def generation_inputs(self) -> Mapping[str, Any]:
            return {"model": "script"}

    def elsewhere() -> Steps[list[str]]:
        texts = yield Ask(model=Elsewhere("other address"), prompts=(prompt("x"),))
        return [text.text for text in texts]

    model = Echo()
    results, _, _ = run(store, {"a": asking("x"), "b": elsewhere()}, generator=model)

    assert results == {"a": ["x"], "b": ["x"]}
    assert len(model.calls) == 1


class NoRoomForY(Echo):
    """A model that has no room for the prompt `y`."""

    def generate(self, prompts, *, keep=None, order=None):  # type: ignore[no-untyped-def]
        long = [item.unit for item in prompts if item.messages[-1]["content"] == "y"]
        if long:
            super().generate(prompts[:1], keep=keep)
            raise ContextError("generate", "1 prompt", "too long", tuple(long))
        return super().generate(prompts, keep=keep)


def test_a_prompt_that_is_too_long_is_answered_with_none_and_the_others_with_texts(store: ArtifactStore) -> None:
    model = NoRoomForY()
    results, _, _ = run(store, {"a": asking("x", "y", "z")}, generator=model)

    assert results["a"] == ["x", None, "z"]
    # x was written before the error, so only z is asked for again.
    assert [[item.messages[-1]["content"] for item in call] for call in model.calls] == [["x"], ["z"]]


def test_pairs_are_scored_once_whatever_the_first_stages_scores_are(store: ArtifactStore) -> None:
    def steps(first: float) -> Steps[Reranking]:
        documents = (Document(doc_id="d1", text="fever and rash"), Document(doc_id="d2", text="airways"))
        work = Candidates(QUERIES[0], documents, (first, 0.0))
        scored: Reranking = yield Score(scorer=SCORER, candidates=(work,))
        return scored

    results, runner, _ = run(store, {"a": steps(2.0)})
    again, idle, _ = run(store, {"b": steps(3.0)})

    # "fever" is the only word that the query shares with a document.
    assert results["a"].scores == {"q1": [1.0, 0.0]}
    assert again["b"] == results["a"]
    assert (runner.calls, idle.calls) == (["start scorer"], [])


def test_what_is_not_at_hand_ends_the_part_that_needs_it_and_no_other(store: ArtifactStore, task: Task) -> None:
    parts = {"a": writing_then_finding(task, "fever"), "b": finding(task)}
    results, runner, _ = run(store, parts, generator=Echo(), not_at_hand=[MODEL])

    assert isinstance(results["a"], NotAtHand)
    assert ids(results["b"])["q2"] == ["d2"]
    assert "start script" not in runner.calls


def test_nothing_is_paid_for_before_all_that_follows_is_known_to_be_at_hand(store: ArtifactStore, task: Task) -> None:
    model = Echo()
    results, runner, _ = run(
        store, {"a": writing_then_finding(task, "fever")}, generator=model, not_at_hand=[BM25.row]
    )

    assert isinstance(results["a"], NotAtHand)
    assert model.calls == []
    assert runner.calls == []


def test_an_error_is_raised_where_the_demand_was_yielded(store: ArtifactStore, task: Task) -> None:
    def steps() -> Steps[str]:
        try:
            yield Read(task=task, doc_ids=frozenset({"nowhere"}))
        except DataError as error:
            return str(error)
        return "found"

    results, _, _ = run(store, {"a": steps()})

    assert "'nowhere'" in results["a"]


class Fails(ScriptedGenerator):
    """A model that fails for good."""

    def generate(self, prompts, *, keep=None, order=None):  # type: ignore[no-untyped-def]
        raise StageError("generate", prompts[0].unit, "HTTP 500")


def test_whatever_ends_a_run_all_that_was_started_is_ended(store: ArtifactStore, task: Task) -> None:
    worklog = Worklog()
    runner = ScriptedRunner(store, worklog, generator=Fails({}))
    parts = {"a": conversation(task, 1), "b": finding(task)}

    with pytest.raises(StageError, match="a, query 'one turn 0': HTTP 500"):
        list(Driver(store, runner, worklog, fetch).run(parts))

    assert worklog.started == worklog.ended
    assert worklog.started["model script"] == 1
    assert "start script" in runner.closed


def test_a_consumer_that_stops_early_leaves_nothing_running(store: ArtifactStore, task: Task) -> None:
    runner = ScriptedRunner(store, Worklog(), generator=Echo())
    outcomes = Driver(store, runner, Worklog(), fetch).run({"a": finding(task), "b": conversation(task, 3)})
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]

    assert sorted(runner.closed) == sorted(call for call in runner.calls if not call.startswith("prepare"))


def test_a_part_that_does_not_let_go_keeps_nothing_else_running(store: ArtifactStore, task: Task) -> None:
    def clings() -> Steps[None]:
        try:
            yield Find(task=task, first_stage=BM25, queries=QUERIES, k=2)
            yield from asking("x")
        finally:
            yield from asking("y")

    runner = ScriptedRunner(store, Worklog(), generator=Fails({}))
    with pytest.raises(RuntimeError, match="generator ignored GeneratorExit"):
        list(Driver(store, runner, Worklog(), fetch).run({"a": clings(), "b": asking("z")}))

    assert runner.closed == ["open one", "start script"] or runner.closed == ["start script", "open one"]


def test_a_run_within_a_run_ends_nothing_of_the_outer_one(store: ArtifactStore) -> None:
    one, two = task_of(store, "one"), task_of(store, "two")
    runner = ScriptedRunner(store, Worklog(), generator=Echo())
    driver = Driver(store, runner, Worklog(), fetch)
    within = []
    for name, _ in driver.run({"a": finding(one), "b": conversation(one, 3)}):
        within += [name, *(inner for inner, _ in driver.run({f"{name} within": finding(two)}))]

    assert within == ["a", "a within", "b", "b within"]
    assert runner.calls.count("open one") == 1


def test_after_a_failure_the_same_driver_works_again(store: ArtifactStore, task: Task) -> None:
    class FailsOnce(Echo):
        def generate(self, prompts, *, keep=None, order=None):  # type: ignore[no-untyped-def]
            if not self.calls:
                self.calls.append(())
                raise StageError("generate", prompts[0].unit, "HTTP 500")
            return super().generate(prompts, keep=keep)

    runner = ScriptedRunner(store, Worklog(), generator=FailsOnce())
    driver = Driver(store, runner, Worklog(), fetch)
    with pytest.raises(StageError, match="HTTP 500"):
        list(driver.run({"a": writing_then_finding(task, "fever")}))
    [(_, ended)] = driver.run({"a": writing_then_finding(task, "fever")})

    assert isinstance(ended, Ended)
    assert not runner.stop.is_set()


def test_the_final_searches_wait_for_the_texts_so_every_index_is_opened_once(store: ArtifactStore) -> None:
    tasks = [task_of(store, name) for name in ("one", "two")]
    parts = {
        f"{system} on {task.name}": steps
        for task in tasks
        for system, steps in {
            "bm25": finding(task),
            "hyde": writing_then_finding(task, "fever"),
            "query2doc": writing_then_finding(task, "rash"),
        }.items()
    }
    _, runner, log = run(store, parts, generator=Echo())

    # Both corpora are prepared while the model writes. Both texts of both tasks are one batch.
    assert sorted(runner.calls) == ["open one", "open two", "prepare one, two", "start script"]
    assert sum(log.started.values()) == 3
    assert sorted(runner.closed) == sorted(call for call in runner.calls if not call.startswith("prepare"))


class SearchesTogether(ScriptedRunner):
    """Searches several indexes at once. The search in `one` ends after the search in `two`.

    Attributes:
        together: what becomes of waiting for the other search, by name of the task.
    """

    def __init__(self, store: ArtifactStore, worklog: Worklog, **settings: Any) -> None:
        super().__init__(store, worklog, **settings)
        self.searches_at_once = 8
        self.together: dict[str, bool] = {}
        self._begun = {"one": threading.Event(), "two": threading.Event()}
        self._two_has_ended = threading.Event()

    def open_index(self, task: Task, first_stage: ShardedFirstStage) -> PlainIndex:
        index = super().open_index(task, first_stage)
        search = index.retrieve

        def retrieve(queries: Sequence[Query], *, k: int, among: object = None) -> Run:
            self._begun[task.name].set()
            other = "two" if task.name == "one" else "one"
            self.together[task.name] = self._begun[other].wait(60)
            if task.name == "one":
                self._two_has_ended.wait(60)
            found = search(queries, k=k)
            if task.name == "two":
                self._two_has_ended.set()
            return found

        index.retrieve = retrieve  # type: ignore[method-assign]
        return index


def test_tasks_are_searched_at_the_same_time_and_the_results_come_in_the_order_of_the_parts(
    tmp_path: Path,
) -> None:
    runs: dict[str, dict[str, Any]] = {}
    files: dict[str, list[tuple[str, str]]] = {}
    for name, kind in {"serial": ScriptedRunner, "together": SearchesTogether}.items():
        store, worklog = ArtifactStore(str(tmp_path / name)), Worklog()
        parts = {f"on {task}": finding(task_of(store, task)) for task in ("one", "two")}
        runner = kind(store, worklog)
        runs[name] = dict(Driver(store, runner, worklog, fetch).run(parts))
        files[name] = [(each.name, each.files["run.parquet"].sha256) for each in store.all("run")]

    assert isinstance(runner, SearchesTogether)
    assert runner.together == {"one": True, "two": True}
    assert sorted(runner.closed) == ["open one", "open two"]
    assert list(runs["together"]) == list(runs["serial"]) == ["on one", "on two"]
    assert {name: ended.result for name, ended in runs["together"].items()} == {
        name: ended.result for name, ended in runs["serial"].items()
    }
    assert files["together"] == files["serial"]


def test_of_searches_at_the_same_time_the_first_failure_by_order_is_raised_and_all_indexes_are_closed(
    store: ArtifactStore,
) -> None:
    class BothFail(SearchesTogether):
        def open_index(self, task: Task, first_stage: ShardedFirstStage) -> PlainIndex:
            index = super().open_index(task, first_stage)
            search = index.retrieve

            def retrieve(queries: Sequence[Query], *, k: int, among: object = None) -> Run:
                search(queries, k=k)
                raise StageError("search", task.name, "the shard is gone")

            index.retrieve = retrieve  # type: ignore[method-assign]
            return index

    runner = BothFail(store, Worklog())
    parts = {f"on {task}": finding(task_of(store, task)) for task in ("one", "two")}
    with pytest.raises(StageError, match="search failed on one"):  # which fails after the other one
        list(Driver(store, runner, Worklog(), fetch).run(parts))

    assert sorted(runner.closed) == ["open one", "open two"]


class WatchesCorpora(Echo):
    """Waits while it writes until a corpus is being prepared, or until the time is up."""

    def __init__(self, preparing: threading.Event, patience_s: float) -> None:
        super().__init__()
        self._preparing = preparing
        self._patience_s = patience_s
        self.saw_it = False

    def generate(self, prompts, *, keep=None, order=None):  # type: ignore[no-untyped-def]
        self.saw_it = self._preparing.wait(self._patience_s)
        return super().generate(prompts, keep=keep)


# Beside each other the corpus is begun at once; else it can't begin before the writing has ended.
@pytest.mark.parametrize(("cpus", "beside", "patience_s"), [(2, True, 60.0), (1, False, 0.2)])
def test_corpora_are_prepared_beside_the_writing_where_both_fit(
    store: ArtifactStore, task: Task, cpus: int, beside: bool, patience_s: float
) -> None:
    preparing = threading.Event()
    model = WatchesCorpora(preparing, patience_s)
    results, runner, _ = run(
        store, {"a": writing_then_finding(task, "fever")}, generator=model, cpus=cpus, preparing_begins=preparing
    )

    assert model.saw_it is beside
    assert runner.calls.count("prepare one") == 1
    assert ids(results["a"]) == {"q1": ["d1", "d3"]} or ids(results["a"]) == {"q1": ["d3", "d1"]}


def test_the_seconds_of_a_search_are_without_those_of_opening_its_index(
    store: ArtifactStore, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(serving_batches, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class TakesTime(ScriptedRunner):
        def open_index(self, task: Task, first_stage: ShardedFirstStage) -> PlainIndex:
            index = super().open_index(task, first_stage)
            search = index.retrieve
            now[0] += 1000

            def retrieve(queries: Sequence[Query], *, k: int, among: object = None) -> Run:
                now[0] += 3
                return search(queries, k=k)

            index.retrieve = retrieve  # type: ignore[method-assign]
            return index

    worklog = Worklog()
    parts = {"a": finding(task), "b": finding(task, QUERIES[:1])}
    ended = dict(Driver(store, TakesTime(store, worklog), worklog, fetch).run(parts))

    assert [ended[name].seconds["search"] for name in ("a", "b")] == [3, 3]


class LeavesBeforeTheOther(ScriptedRunner):
    """Searches several indexes at once. The search in `one` ends when the index of `two` is closed."""

    def open_index(self, task: Task, first_stage: ShardedFirstStage) -> PlainIndex:
        index = super().open_index(task, first_stage)
        search = index.retrieve

        def retrieve(queries: Sequence[Query], *, k: int, among: object = None) -> Run:
            if task.name == "one":
                wait_until(lambda: "open two" in self.closed)
            return search(queries, k=k)

        index.retrieve = retrieve  # type: ignore[method-assign]
        return index


def test_an_index_that_nobody_needs_is_given_back_while_another_is_searched(store: ArtifactStore) -> None:
    worklog = Worklog()
    runner = LeavesBeforeTheOther(store, worklog)
    runner.searches_at_once = 8
    parts = {f"on {task}": finding(task_of(store, task)) for task in ("one", "two")}

    assert [name for name, _ in Driver(store, runner, worklog, fetch).run(parts)] == ["on one", "on two"]
    assert runner.closed == ["open two", "open one"]
    assert worklog.started == worklog.ended


class PreparesLong(ScriptedRunner):
    """Prepares a corpus until the language model is closed."""

    def prepare(self, corpora: Corpora, sets: Sequence[QuerySet]) -> None:
        if corpora:
            wait_until(lambda: "start script" in self.closed)
        super().prepare(corpora, sets)


def writing_once(task: Task) -> Steps[Run]:
    """Have all texts written at once and search with them, so that nobody comes back to the model."""
    yield Expect(searches=((task, BM25),))
    [written] = yield from asking("fever")
    yield Expect()
    return (yield from finding(task, [Query(query_id="q1", text=written or "")]))


def test_a_model_that_nobody_needs_is_given_back_while_a_corpus_is_prepared(store: ArtifactStore, task: Task) -> None:
    worklog = Worklog()
    runner = PreparesLong(store, worklog, generator=Echo())
    [(_, ended)] = Driver(store, runner, worklog, fetch).run({"a": writing_once(task)})

    assert isinstance(ended, Ended)
    assert sorted(runner.calls) == ["open one", "prepare one", "start script"]
    assert worklog.started == worklog.ended


def test_agents_over_more_tasks_than_fit_open_each_index_once(store: ArtifactStore) -> None:
    tasks = [task_of(store, f"task {number}") for number in range(8)]
    # The model takes 2 of 6 CPUs, so four indexes of 1 CPU each fit beside it.
    _, runner, log = run(
        store,
        {task.name: conversation(task, turns=5) for task in tasks},
        cpus=6,
        needs={"writing": 2},
        generator=Echo(),
    )

    opened = [call for call in runner.calls if call.startswith("open")]
    assert len(opened) == len(set(opened)) == 8
    assert runner.calls.count("start script") == 1
    assert log.started == log.ended


def test_a_model_and_an_index_that_never_fit_together_take_turns(store: ArtifactStore) -> None:
    tasks = [task_of(store, name) for name in ("one", "two")]
    model = Echo()
    results, _, log = run(store, {task.name: conversation(task, turns=2) for task in tasks}, cpus=1, generator=model)

    assert results == {"one": 2, "two": 2}
    # Both conversations ask together in each of three rounds: two turns and the answer.
    assert [len(call) for call in model.calls] == [2, 2, 2]
    assert log.started == log.ended


def test_counting_does_no_work_and_says_what_is_missing(store: ArtifactStore, task: Task, tmp_path: Path) -> None:
    runner = ScriptedRunner(store, Worklog())
    before = store.names()
    driver = Driver(store, runner, Worklog(), fetch)
    counted = driver.count({"a": writing_then_finding(task, "fever"), "b": finding(task)})

    assert [len(counted[name].waits_for) for name in ("a", "b")] == [1, 1]
    assert (counted["a"].is_rewriting, counted["b"].is_rewriting) == (True, False)
    assert runner.calls == []
    assert store.names() == before
