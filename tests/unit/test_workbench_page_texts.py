"""What the page shows of single queries comes out of the store: one process, BM25, a rewriter with reasoning."""

import json
from dataclasses import replace
from pathlib import Path

from r2med_ray.benchmark import load_tasks, run_benchmark
from r2med_ray.reporting.missing import Missing
from r2med_ray.reporting.texts import Question
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import resolve
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.showing.page_texts import page_texts
from tests.unit.corpus_files import write_r2med


def test_a_report_knows_question_passages_terms_and_what_was_written(tmp_path: Path) -> None:
    source = write_r2med(
        tmp_path / "a",
        corpus=[("d1", "rubella harms the heart"), ("d2", "asthma narrows airways"), ("d3", "a heart beats")],
        queries=[("q1", "infection of the heart")],
        qrels=[("q1", "d1", 1)],
    )
    folder = Path(source.folder)
    query = {"id": "q1", "text": "infection of the heart", "answer": "rubella", "body_system": "circulation"}
    (folder / "query.jsonl").write_text(json.dumps(query) + "\n")
    texts = folder / "hyde" / "r1" / "query_with_hydoc.jsonl"
    texts.parent.mkdir(parents=True)
    texts.write_text(json.dumps({"id": "q1", "hy_doc": "<think>it is a virus</think>rubella in pregnancy"}) + "\n")
    rewriter = {"method": "hyde", "generations": "r1"}
    systems = [{"name": "plain", "retriever": "bm25"}, {"name": "hyde", "retriever": "bm25", "rewriter": rewriter}]
    tasks = [{"path": str(folder), "layout": "r2med", "name": "Tiny"}]
    config = {"name": "x", "tasks": tasks, "systems": systems, "measures": ["nDCG@10"]}
    benchmark = resolve(parse_config(config))

    with open_workbench(tmp_path / "store", names=benchmark.names) as bench:
        record = run_benchmark(benchmark, bench)
        [task], _ = load_tasks(benchmark, bench.store, Missing("error"))
        ranked = bench.rank(task, benchmark.systems[0])
        own = replace(ranked.rewriting, ranked={"q1": (("d1",),)})
        of_agent = page_texts(bench.store, "cpu", task, [(benchmark.systems[0], replace(ranked, rewriting=own))])

    found = record.tasks[0].texts
    assert found is not None
    assert found.questions == {
        "q1": Question(text="infection of the heart", answer="rubella", body_system="circulation")
    }
    assert found.passages == {"d1": "rubella harms the heart", "d3": "a heart beats"}  # d2 shares no word with it
    assert found.written["hyde"]["q1"].texts == ("rubella in pregnancy",)
    assert found.written["hyde"]["q1"].reasoning == ("it is a virus",)
    assert "plain" not in found.written
    # `rubella` is in one document of three and `heart` in two, so `rubella` adds more
    assert list(found.terms["hyde"]["q1"]["d1"]) == ["rubella", "heart"]
    assert list(found.terms["plain"]["q1"]["d1"]) == ["heart"]
    assert record.results[0].recall_by_depth[100] == 1.0
    # A list that an agent made itself was not found by terms.
    assert of_agent.terms == {}
