"""A round of hard negatives, from a scripted service to the pack, in this process."""

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from r2med_ray.benchmark import run_benchmark
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.packs import Pack, read_pack
from r2med_ray.errors import ConfigError, DataError, R2MedError
from r2med_ray.negatives.audit_sheets import agreement
from r2med_ray.negatives.generation_job import load_material, plan_text, write_rounds
from r2med_ray.negatives.generation_settings import GenerationConfig
from r2med_ray.negatives.material import Tools
from r2med_ray.negatives.round_files import write_round
from r2med_ray.reporting.hard_negative_tables import pair_columns
from r2med_ray.reporting.hard_negatives import ConditionFigures
from r2med_ray.reporting.summary import summarise
from r2med_ray.settings.config_files import load_settings, parse_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import Names, resolve
from r2med_ray.types import Task
from r2med_ray.workbench.bench import Workbench, open_workbench
from tests.http_services import Reply, Request, Service, completions, refuse
from tests.object_store import Failing, Requests
from tests.scripted_writer import DEMO, KINDS, Say, Script, lines_of, paraphrase, write_generation

SLOTS = 8
"""Two queries, and four hard negatives for each: one of each kind."""

REFUSAL = "I'm sorry, but I can't help with that."
NO_ROOM = "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens."
FRENCH = " ".join(["La maladie est une insuffisance dont les signes sont la fatigue et la perte de poids."] * 5)


def opened(bench: Workbench, failing: Failing | None) -> Workbench:
    """Return a workbench whose store may fail."""
    if failing is not None:
        place = bench.store.place
        object.__setattr__(place, "filesystem", fs.PyFileSystem(Requests(place.filesystem, failing)))
    return bench


def make(
    folder: Path,
    script: Say,
    *,
    failing: Failing | None = None,
    too_long: Callable[[str], bool] = lambda prompt: False,
    **changes: object,
) -> tuple[Path, int]:
    """Make a round in a folder. Return the folder of the pack, and how many texts the service was asked for.

    Args:
        folder: gets settings, store and packs.
        script: what the service answers.
        failing: when the store fails.
        too_long: the prompts that the service has no room for.
        changes: keys over the settings.
    """

    def answer(request: Request) -> Reply:
        prompt = request.body["messages"][-1]["content"]
        return (refuse(400, NO_ROOM) if too_long(prompt) else completions(script))(request)

    with Service(answer) as service:
        config = load_settings(GenerationConfig, write_generation(folder / "settings", service.url, **changes))
        names = Names.load(Path(str(config.models)))
        with open_workbench(folder / "store", names=names, resources=config.resources) as bench:
            sources = resolve_tasks(list(config.tasks))
            tools = Tools.of(config, names)
            materials = [load_material(opened(bench, failing), source, config, tools) for source in sources]
            [pack] = write_rounds(bench, materials, folder / "packs")
        return pack, len(service.requests)


def verdicts(pack: Path) -> Mapping[str, int]:
    found: Mapping[str, int] = json.loads((pack / "manifest.json").read_text())["verdicts"]
    return found


def files_of(pack: Path) -> dict[str, bytes]:
    return {str(path.relative_to(pack)): path.read_bytes() for path in sorted(pack.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Task:
    store = ArtifactStore(str(tmp_path_factory.mktemp("demo")))
    [source] = resolve_tasks(["Demo-Evidence"])
    return load_task(source, store, documents_per_shard=40)


@pytest.fixture(scope="module")
def round_1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("round"), Script())[0]


def test_a_round_is_a_pack_that_the_evaluation_reads(round_1: Path, demo: Task) -> None:
    pack = read_pack([round_1], demo)

    assert verdicts(round_1) == {"released": SLOTS}
    assert {query_id: len(own) for query_id, own in pack.negatives.items()} == {"exam-01": 4, "exam-02": 4}
    for query_id, own in pack.negatives.items():
        assert sorted(known.kind for known in own.values()) == sorted(KINDS)
        assert all(demo.qrels[query_id][positive] > 0 for known in own.values() for positive in known.positives)


def test_judges_are_tried_on_positives_and_on_random_documents(tmp_path: Path, demo: Task) -> None:
    texts = {row["id"]: row["text"] for row in lines_of(DEMO / "corpus.jsonl")}
    queries = {row["id"]: row["text"] for row in lines_of(DEMO / "query.jsonl")}
    asked: list[tuple[str, str]] = []

    def judge(prompt: str) -> str:
        """Grade positives 3 and other documents 0."""
        [query_id] = [name for name, text in queries.items() if f"Question:\n{text}\n" in prompt]
        found = [name for name, text in texts.items() if text in prompt]
        if not found:  # a passage of the writer's
            return "Grade: 1"
        asked.append((query_id, found[0]))
        return f"Grade: {3 if demo.qrels[query_id].get(found[0], 0) > 0 else 0}"

    pack, _ = make(tmp_path, Script({"support": judge}), calibration=6)

    calibration = json.loads((pack / "manifest.json").read_text())["calibration"]
    assert calibration == {"script": {"positives": {"3": 6}, "random documents": {"0": 6}}}
    assert len({*asked}) == 12


def test_every_record_says_what_it_was_made_with_and_from(round_1: Path) -> None:
    passages = pq.read_table(round_1 / "passages.parquet").to_pylist()
    records = [json.loads(line) for line in (round_1 / "records.jsonl").read_text().splitlines()]

    for made in (*passages, *records):
        assert made["writer"] == "script"
        assert (made["prompt"], made["prompt_version"]) == (made["kind"], "1")
        assert made["synthetic"]
        assert made["hard_query"] == "Which gland has failed?"
        assert len(made["anchors"]) == 2
    assert {record["doc_id"] for record in records} == {passage["doc_id"] for passage in passages}
    assert [check["name"] for check in records[0]["checks"]] == [
        *("hard query", "passage", "length", "language", "copy"),
        *("near duplicate by words", "near duplicate by embedding", "support", "rank", "answer"),
    ]
    assert len({record["seed"] for record in records}) == SLOTS
    assert json.loads((round_1 / "manifest.json").read_text())["canary"].startswith("r2med_ray hard negatives")


def test_controls_are_a_pack_of_their_own_and_none_is_a_hard_negative(round_1: Path, demo: Task) -> None:
    controls = read_pack([round_1 / "controls"], demo)

    kinds = [known.kind for own in controls.negatives.values() for known in own.values()]
    # Four hard negatives of a query whose three positives take turns are made from all three: 2 x 3 paraphrases.
    assert kinds.count("control: paraphrased positive") == 6
    assert kinds.count("control: random") == SLOTS
    assert not {one.doc_id for one in controls.documents} & {
        one.doc_id for one in read_pack([round_1], demo).documents
    }


def test_the_evaluation_shows_controls_beside_the_kinds_and_counts_them_in_no_other_figure(
    tmp_path: Path, round_1: Path
) -> None:
    def figures(packs: list[Path], conditions: list[str]) -> dict[str, ConditionFigures]:
        entry = {"task": "Demo-Evidence", "packs": list(map(str, packs)), "conditions": conditions}
        systems = [{"name": "words", "retriever": "bm25"}]
        benchmark = resolve(
            parse_config({"name": "x", "tasks": ["Demo-Evidence"], "systems": systems, "hard_negatives": [entry]})
        )
        with open_workbench(tmp_path / "store", names=benchmark.names) as bench:
            summary = summarise(run_benchmark(benchmark, bench))
        [hardest] = [column.texts for column in pair_columns(summary) if column.title == "Fooled most by"]
        assert hardest[0].partition(":")[0] != "control"
        return {row.condition: row for row in summary.hard_negatives}

    alone = figures([round_1], ["own", "all", "pairs"])
    both = figures([round_1, round_1 / "controls"], ["own", "all", "pairs"])
    controls = figures([round_1 / "controls"], ["pairs"])

    for condition in ("base", "own", "all"):
        assert both[condition] == alone[condition]
    assert both["pairs"].values == alone["pairs"].values
    shown = both["pairs"].by_kind
    assert shown.keys() == {*KINDS, "control: paraphrased positive", "control: random"}
    assert shown.items() >= alone["pairs"].by_kind.items()
    assert shown.items() >= controls["pairs"].by_kind.items()
    assert controls["pairs"].values == {}
    with pytest.raises(DataError, match=r"the pack has controls alone, .* set `conditions: \[pairs\]`"):
        figures([round_1 / "controls"], ["own"])


def said(text: str) -> Say:
    return lambda prompt: text


def of_all_kinds(say: Say) -> dict[str, Say]:
    return dict.fromkeys(KINDS, say)


def passage_in(prompt: str) -> str:
    return prompt.partition("Supporting passage:\n")[2].partition("\n\nExamples of the style:")[0]


def example_in(prompt: str) -> str:
    return prompt.partition("Examples of the style:\n")[2].partition("\n\n")[0]


PATHS = {
    "unusable hard query: refusal": {"hard query": said(REFUSAL)},
    "unusable passage: empty": of_all_kinds(said("")),
    "unusable passage: refusal": of_all_kinds(said(REFUSAL)),
    "length": of_all_kinds(said("It is too short.")),
    "language": of_all_kinds(said(FRENCH)),
    "copy": of_all_kinds(passage_in),
    "near duplicate by words": of_all_kinds(example_in),
    "near duplicate by embedding": of_all_kinds(lambda prompt: paraphrase(passage_in(prompt))),
    "found positive: judge": {"support": said("Grade: 2")},
    "unreadable judge: support": {"support": said("It depends.")},
    "found positive: rank": {"rank": said("[1] > [2]")},
    "unreadable judge: rank": {"rank": said("Both are fine.")},
    "unreadable judge: answer": {"answer": said("")},
    "answers the query": {"answer": said("The adrenal glands have failed."), "agree": said("Yes.")},
    "unreadable judge: agreement": {"answer": said("The adrenal glands have failed."), "agree": said("Partly.")},
}


@pytest.mark.parametrize(("verdict", "instead"), PATHS.items(), ids=PATHS)
def test_every_reason_against_a_passage_is_a_verdict_that_the_manifest_counts(
    tmp_path: Path, verdict: str, instead: Mapping[str, Say]
) -> None:
    pack, _ = make(tmp_path, Script(instead), controls=False)

    assert verdicts(pack) == {verdict: SLOTS}
    manifest = json.loads((pack / "manifest.json").read_text())
    assert len(manifest["unfilled"]) == manifest["planned"] == SLOTS
    found = (pack / "found_positives.jsonl").read_text().splitlines()
    assert len(found) == (SLOTS if verdict.startswith("found positive") else 0)


@pytest.mark.parametrize(
    ("from_positive", "verdict"),
    [
        ("", "unreadable judge: right answer"),
        ("No answer.", "released"),
        ("The adrenal glands.", "answers the query"),
    ],
)
def test_where_a_task_has_no_answers_the_judges_answer_from_the_positive_is_the_right_one(
    tmp_path: Path, from_positive: str, verdict: str
) -> None:
    folder = shutil.copytree(DEMO, tmp_path / "Demo-Evidence")
    queries = [{**row, "answer": ""} for row in lines_of(folder / "query.jsonl")]
    (folder / "query.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    passages = {row["text"] for row in lines_of(folder / "hard_negatives" / "passages.jsonl")}

    def answer(prompt: str) -> str:
        return "The adrenal glands." if any(text in prompt for text in passages) else from_positive

    task = {"path": str(folder), "layout": "r2med", "name": "Demo-Evidence"}
    pack, _ = make(tmp_path, Script({"answer": answer}), controls=False, tasks=[task])

    assert verdicts(pack) == {verdict: SLOTS}


def test_a_passage_that_a_cross_encoder_scores_near_its_positive_is_set_aside(tmp_path: Path) -> None:
    # The scorer counts letters that two texts share; no difference of two counts is as much as 1000.
    pack, _ = make(tmp_path, Script(), controls=False, margin={"model": "letters", "at_least": 1000})

    assert verdicts(pack) == {"found positive: margin": SLOTS}


def test_a_prompt_without_room_leaves_out_the_examples_and_is_counted(tmp_path: Path) -> None:
    pack, _ = make(
        tmp_path,
        Script(),
        too_long=lambda prompt: "style:\n" in prompt and "style:\n(none)" not in prompt,
        controls=False,
    )

    assert verdicts(pack) == {"released": SLOTS}
    assert json.loads((pack / "manifest.json").read_text())["without_examples"] == SLOTS


def test_a_prompt_that_is_too_long_even_so_fills_no_slot(tmp_path: Path) -> None:
    pack, _ = make(tmp_path, Script(), too_long=lambda prompt: "style:\n" in prompt, controls=False)

    assert verdicts(pack) == {"unusable passage: context limit": SLOTS}


def test_of_equal_texts_one_is_kept(tmp_path: Path) -> None:
    text = Script()._written["exam-03", "mimic"]

    pack, _ = make(tmp_path, Script(of_all_kinds(said(text))), controls=False)

    assert verdicts(pack) == {"near duplicate by words": SLOTS - 1, "released": 1}


def test_a_slot_that_was_not_filled_is_tried_again_with_another_seed(tmp_path: Path) -> None:
    refused: set[str] = set()

    def once(prompt: str) -> str:
        if prompt in refused:
            return Script()(prompt)
        refused.add(prompt)
        return REFUSAL

    pack, _ = make(tmp_path, Script({"mimic": once}), attempts=2, controls=False)

    # Each query has one mimic, whose first text is a refusal.
    assert verdicts(pack) == {"released": SLOTS, "unusable passage: refusal": 2}
    records = [json.loads(line) for line in (pack / "records.jsonl").read_text().splitlines()]
    mimics = [record for record in records if record["kind"] == "mimic"]
    assert [record["attempt"] for record in mimics] == [0, 1, 0, 1]
    assert len({record["seed"] for record in mimics}) == 4


def test_a_second_run_asks_nothing_and_changes_nothing(tmp_path: Path) -> None:
    pack, asked = make(tmp_path, Script())
    before = files_of(pack)

    again, asked_again = make(tmp_path, Script())

    # For each of 8 slots a hard query, a passage, a grade, two orders and an answer; and 6 paraphrases. The judge is
    # tried on two positives and two random documents.
    assert (asked, asked_again) == (8 * 6 + 6 + 4, 0)
    assert files_of(again) == before


def test_a_service_that_fails_leaves_no_pack_and_its_texts_are_asked_for_again(tmp_path: Path) -> None:
    with Service(refuse(401)) as service:
        config = load_settings(GenerationConfig, write_generation(tmp_path / "settings", service.url))
        names = Names.load(Path(str(config.models)))
        with open_workbench(tmp_path / "store", names=names, resources=config.resources) as bench:
            [source] = resolve_tasks(["Demo-Evidence"])
            material = load_material(bench, source, config, Tools.of(config, names))
            with pytest.raises(R2MedError, match="401"):
                write_rounds(bench, [material], tmp_path / "packs")
    assert not list(tmp_path.glob("packs/*/*"))

    pack, _ = make(tmp_path, Script())
    assert verdicts(pack) == {"released": SLOTS}


def test_work_that_is_killed_at_five_seeded_points_gives_the_same_pack_byte_for_byte(
    tmp_path: Path, round_1: Path
) -> None:
    never = Failing(10**9, dead=True)
    make(tmp_path / "counted", Script(), failing=never)
    calls = 10**9 - never.left
    for n in random.Random(11).sample(range(1, calls), 5):
        folder, failing = tmp_path / str(n), Failing(n, dead=True)
        with pytest.raises(R2MedError, match="the connection broke"):
            make(folder, Script(), failing=failing)
        assert not list(folder.glob("packs/*/*"))

        pack, _ = make(folder, Script())

        assert files_of(pack) == files_of(round_1)


def test_a_released_round_is_never_rewritten(tmp_path: Path, round_1: Path) -> None:
    files = files_of(round_1)
    folder = write_round(tmp_path / "round-1", files)
    (folder / "audit.csv").write_text("filled in by a person")

    write_round(folder, files)
    assert (folder / "audit.csv").read_text() == "filled in by a person"

    with pytest.raises(ConfigError, match=r"labels\.parquet is another one .* set another `round`"):
        write_round(folder, files | {"labels.parquet": b"others"})


class Ending(dict[str, bytes]):
    """Files of which some are written, and then the process ends."""

    def __init__(self, files: Mapping[str, bytes], after: int) -> None:
        super().__init__(files)
        self._after = after

    def items(self) -> Iterator[tuple[str, bytes]]:  # type: ignore[override]
        yield from list(super().items())[: self._after]
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """The files of five rounds, two hard negatives per query in each."""
    folder = tmp_path_factory.mktemp("rounds")
    return [files_of(make(folder, Script(), round=n, per_query=2, controls=False)[0]) for n in range(1, 6)]


@given(order=st.permutations(range(5)), crashes=st.lists(st.integers(0, 7) | st.none(), min_size=5, max_size=5))
def test_five_rounds_in_any_order_and_with_crashes_give_the_same_labels(
    order: list[int],
    crashes: list[int | None],
    rounds: list[dict[str, bytes]],
    demo: Task,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def pack_of(places: list[int], ends: list[int | None]) -> Pack:
        folder = tmp_path_factory.mktemp("packs")
        for place in places:
            if (after := ends[place]) is not None:
                with pytest.raises(KeyboardInterrupt):
                    write_round(folder / f"round-{place}", Ending(rounds[place], after))
            write_round(folder / f"round-{place}", rounds[place])
        return read_pack(sorted(folder.glob("round-*"), key=lambda path: places.index(int(path.name[-1]))), demo)

    pack = pack_of(order, crashes)

    assert pack == pack_of([0, 1, 2, 3, 4], [None] * 5)
    # Ten slots of a query meet every kind; the script has one passage per query and kind, whose id is its digest.
    assert {query_id: len(own) for query_id, own in pack.negatives.items()} == {"exam-01": 4, "exam-02": 4}


def test_the_plan_says_what_a_round_takes(tmp_path: Path) -> None:
    config = load_settings(GenerationConfig, write_generation(tmp_path, "http://127.0.0.1:1/v1", attempts=3))
    names = Names.load(Path(str(config.models)))
    with open_workbench(tmp_path / "store", names=names, resources=config.resources) as bench:
        [source] = resolve_tasks(["Demo-Evidence"])
        text = plan_text(load_material(bench, source, config, Tools.of(config, names)))

    # 8 slots, 3 attempts, 7 texts in each: hard query, passage, grade, two orders, answer, agreement.
    assert text == (
        "Demo-Evidence, round 1: 8 hard negatives of 4 kinds for 2 queries, made from 6 positives; at most 168 "
        "texts, and those of controls and of calibration"
    )


def test_an_audit_that_comes_back_is_compared_with_the_judges(tmp_path: Path) -> None:
    filters = {"length": [0.01, 1.6], "embedder": "words", "english": 0}
    instead = {"mimic": said("=1+1 is no passage")}
    pack, _ = make(tmp_path, Script(instead), controls=False, filters=filters)
    sheet = pack / "audit.csv"

    # The two mimics have one text. The first is ranked above its positive by the script, which doesn't know the text.
    assert verdicts(pack) == {"found positive: rank": 1, "near duplicate by words": 1, "released": SLOTS - 2}
    assert "'=1+1 is no passage" in sheet.read_text()
    assert "=1+1 is no passage" in (pack / "audit.html").read_text()
    assert agreement(sheet).without_verdict == SLOTS - 1
    sheet.write_text(sheet.read_text().replace(",,\n", ",negative,\n"))
    found = agreement(sheet)
    # The person calls all seven negative, and so agrees about six.
    assert (found.judged, found.agreement, found.released_judged, found.released_positive) == (7, 6 / 7, 6, 0)
