"""What rewriters, agents and rerankers cut off passages that they show to a language model is told in a report."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from r2med_ray.cuts import Cuts, PartCuts
from r2med_ray.reporting.notes import reading_notes, warnings
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import load_config
from r2med_ray.systems import resolve
from r2med_ray.types import Rewriting
from tests.http_services import Service, completions
from tests.unit.corpus_files import write_r2med
from tests.unit.tasks import run_in

QUERIES = [("q1", "heart rash"), ("q2", "rash")]
CORPUS = [("d1", "heart failure"), ("d2", "rash " * 40)]
SHOWN = {"retriever": "bm25", "depth": 2, "words": 8}


class Silent:
    """A rewriter of a user's own that doesn't say what it cuts."""

    def __init__(self, config: Any, **others: Any) -> None: ...

    def rewrite(self, queries: Any) -> Any:
        yield from ()
        return Rewriting(queries=tuple(queries))


def rewritten(method: str, **values: Any) -> dict[str, Any]:
    return {"name": method, "retriever": "bm25", "rewriter": {"method": method, "llm": "writer", **values}}


SYSTEMS = [
    rewritten("hyde"),
    rewritten("lamer", candidates=SHOWN),
    rewritten("search-r1", agent=SHOWN),
    rewritten("silent", candidates=SHOWN),
    {"name": "listwise", "retriever": "bm25", "reranker": {"model": "lister", "depth": 2}},
]


def said(prompt: str) -> str:
    is_first_turn = "search" in prompt and "[1] rash" not in prompt
    return "<search>rash</search>" if is_first_turn else "<answer>[1] > [2]</answer>"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("shown")
    write_r2med(folder / "tiny", corpus=CORPUS, queries=QUERIES, qrels=[(q, "d1", 1) for q, _ in QUERIES])
    with Service(completions(said)) as service:
        (folder / "writer").mkdir()
        (folder / "writer" / "config.json").write_text("{}")
        writer = {"name": "writer", "model": str(folder / "writer"), "base_url": service.url}
        lister = {"name": "lister", "strategy": "listwise", "language_model": "writer", "passage_words": 8}
        own = {"name": "silent", "use": "joined", "class": f"{__name__}.{Silent.__name__}"}
        rows = {"language_models": [writer], "llm_rerankers": [lister], "methods": [own]}
        (folder / "models.yaml").write_text(yaml.safe_dump(rows))
        values = {"name": "shown", "models": "models.yaml", "systems": SYSTEMS}
        values |= {"tasks": [{"name": "Tiny", "path": str(folder / "tiny")}]}
        (folder / "shown.yaml").write_text(yaml.safe_dump(values))
        yield folder / "shown.yaml"


def run(file: Path) -> BenchmarkRecord:
    return run_in(file.parent, resolve(load_config(file)))


@pytest.fixture(scope="module")
def record(file: Path) -> BenchmarkRecord:
    return run(file)


def cuts_of(record: BenchmarkRecord) -> dict[str, tuple[PartCuts, ...]]:
    return {result.system: result.cuts for result in record.results}


def words(texts: int, cut: int, count: int, lost: int, *lengths: int) -> Cuts:
    return Cuts(texts=texts, cut=cut, tokens=count, lost=lost, lengths=lengths, unit="words")


def test_words_that_a_language_model_is_not_shown_are_counted_per_system_and_task(record: BenchmarkRecord) -> None:
    # q1 has 2 words and finds d1 with 2 words and d2 with 40, q2 has 1 word and finds d2. 8 words are shown.
    prompts = PartCuts(part="writer", of="prompts", query=words(2, 0, 3, 0), document=words(3, 2, 82, 64, 8))
    assert cuts_of(record) == {
        "hyde": (),
        "lamer": (prompts,),
        # The agent searches once for each query, and finds d2.
        "search-r1": (replace(prompts, document=words(2, 2, 80, 64, 8)),),
        "silent": (replace(prompts, query=None, document=None),),
        # q1 stands in two pairs.
        "listwise": (replace(prompts, part="lister", of="pairs", query=words(3, 0, 5, 0)),),
    }


def test_a_second_run_tells_the_same_though_no_text_is_written_again(record: BenchmarkRecord, file: Path) -> None:
    again = run(file)

    assert all(stage.reused for stage in again.stages)
    assert cuts_of(again) == cuts_of(record)


def test_the_notes_and_the_manifest_tell_it(record: BenchmarkRecord, tmp_path: Path) -> None:
    # 64 of 82 words are 78.05 %, of 80 words 80 %.
    assert [warning for warning in warnings(record) if "Cut were" in warning] == [
        "writer reads at most 8 words of a document. Cut were 2 of 3 documents in prompts (78.05% of all words lost) "
        "for lamer and 2 of 2 documents in prompts (80.00% of all words lost) for search-r1 on Tiny.",
        "lister reads at most 8 words of a document. Cut were 2 of 3 documents in pairs (78.05% of all words lost) "
        "on Tiny.",
    ]
    assert [note for note in reading_notes(record) if note.startswith("Unknown: what writer has cut off doc")] == [
        "Unknown: what writer has cut off documents in prompts on Tiny. It was made before cuts were counted, or by "
        "a class without `Rewriting.cuts`."
    ]
    report = write_report(summarise(record), tmp_path / "report")
    manifest = json.loads((report / "manifest.json").read_text())
    assert manifest["results"][1]["cuts"][0]["document"] == {
        "texts": 3, "cut": 2, "tokens": 82, "lost": 64, "lengths": [8], "unit": "words"
    }  # fmt: skip
    assert cuts_of(load_results(report)) == cuts_of(record)
    assert "Cut were 2 of 3 documents in prompts" in (report / "leaderboard.md").read_text().replace("\\", "")
