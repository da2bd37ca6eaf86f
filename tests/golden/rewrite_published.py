"""Writes published scores from JSON files into `r2med_ray/evaluation/published.csv`.

    python -m tests.golden.rewrite_published FOLDER

FOLDER holds r2med_published_results.json, r2med_published_extra.json, mteb_r2med_results.json and
nanor2med_anchors.json. The values are the figures of the sources. Percentages are divided by 100.
"""

import csv
import json
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from r2med_ray.evaluation.published import TABLE, PublishedScore

RESULT_FILES = ("GitHub R2MED/R2MED@62b7074", "GitHub R2MED/R2MED@45cbac5")  # the second is the first commit
LEADERBOARD = "r2med.github.io@c85a571"
MTEB = "GitHub embeddings-benchmark/results@f4cc6c8"
NANO = "GitHub hakari-bench/hakari-bench@217c872"
OLD_NANO = "GitHub hakari-bench/hakari-bench@ba296a2"  # 2026-05-20, before the lists of BM25 were made anew

MEASURES = {
    "ndcg_at_10": "nDCG@10",
    "recall_at_10": "R@10",
    "recall_at_100": "R@100",
    "map_at_10": "AP@10",
    "map_at_100": "AP@100",
    "precision_at_10": "P@10",
}
"""Key in the files → measure. The files have more than twenty measures; all would make the table larger than 1 MB."""

NANO_MEASURES = {"ndcg_at_10": "nDCG@10", "hit_at_10": "Success@10", "recall_at_100": "pooled_micro_recall@100"}
NANO_SYSTEMS = {
    "bm25": {"retriever": "nano-bm25"},
    "dense": {"retriever": "microsoft/harrier-oss-v1-270m"},
    "reranking_hybrid": {"method": "rrf", "retriever": "nano-bm25+microsoft/harrier-oss-v1-270m"},
}
OLD_COLUMN, OLD_BM25 = "old_bm25_column_before_2026_05_25", "nano-bm25-before-2026-05-25"
MTEB_TASKS = {
    "MedicalSciences": "Medical-Sciences",
    "MedXpertQAExam": "MedXpertQA-Exam",
    "MedQADiag": "MedQA-Diag",
    "PMCTreatment": "PMC-Treatment",
    "PMCClinical": "PMC-Clinical",
    "IIYiClinical": "IIYi-Clinical",
}


def rewrite(folder: Path) -> list[PublishedScore]:
    """Return the rows of the table, in the order of the table."""
    results, extra, mteb, nano = (
        json.loads((folder / name).read_text(), parse_float=Decimal)
        for name in (
            "r2med_published_results.json",
            "r2med_published_extra.json",
            "mteb_r2med_results.json",
            "nanor2med_anchors.json",
        )
    )
    records = [*results, *extra["history_records"]]
    with_file = {(r["method"], r["llm"], r["retriever"], r["reranker"]) for r in records}
    return [
        *_result_files(results, RESULT_FILES[0]),
        *_result_files(extra["history_records"], RESULT_FILES[1]),
        *_leaderboard(extra["leaderboard"], with_file),
        *_mteb(mteb["models"]),
        *_nano(nano),
    ]


def _result_files(records: list[dict[str, Any]], source: str) -> Iterator[PublishedScore]:
    for record in records:
        for key, measure in MEASURES.items():
            if key in record["metrics"]:
                yield PublishedScore(
                    family=record["family"],
                    method=record["method"],
                    llm=record["llm"],
                    retriever=record["retriever"],
                    reranker=record["reranker"],
                    depth=record["top_k"],
                    task="NFCorpus" if record["task"] == "BEIR_NFCorpus" else record["task"],
                    measure=measure,
                    value=record["metrics"][key],
                    source=source,
                )


def _leaderboard(rows: list[dict[str, Any]], with_file: set[tuple[Any, ...]]) -> Iterator[PublishedScore]:
    """Yield the scores of the leaderboard's rows that have no result file."""
    for row in rows:
        key = row["key"]
        reranker = {"-": None, "ReasonRank(32B)": "reasonrank-32b"}[row["reranker"]]
        if (key["method"], key["llm"], key["retriever"], reranker) in with_file:
            continue
        for task, percent in row["scores"].items():
            yield PublishedScore(
                family="reranker" if reranker else "gar",
                **key,
                reranker=reranker,
                task=task,
                measure="nDCG@10",
                value=percent / 100,
                source=LEADERBOARD,
            )


def _mteb(models: dict[str, Any]) -> Iterator[PublishedScore]:
    for model in models.values():
        for task, result in model["tasks"].items():
            for key, measure in MEASURES.items():
                yield PublishedScore(
                    family="mteb",
                    retriever=model["hf_model"],
                    task=MTEB_TASKS.get(task, task),
                    measure=measure,
                    value=result["scores"][key],
                    source=MTEB,
                )


def _nano(nano: dict[str, Any]) -> Iterator[PublishedScore]:
    for profile, system in NANO_SYSTEMS.items():
        found = {task: facts["profiles"][profile] for task, facts in nano["tasks"].items()}
        yield from _nano_profile(system, found, nano["group"][profile], NANO)
    found = {task: facts[OLD_COLUMN] for task, facts in nano["tasks"].items()}
    yield from _nano_profile({"retriever": OLD_BM25}, found, nano["group"]["old_bm25"], OLD_NANO)


def _nano_profile(
    system: dict[str, str], tasks: dict[str, dict[str, Any]], group: dict[str, Any], source: str
) -> Iterator[PublishedScore]:
    def row(task: str, measure: str, value: Any) -> PublishedScore:
        return PublishedScore(family="nano", **system, task=task, measure=measure, value=value, source=source)

    for task, figures in tasks.items():
        for key, measure in NANO_MEASURES.items():
            if key in figures:
                yield row(task, measure, figures[key])
    for key, value in group.items():
        measure = re.sub("^(query_weighted|task_macro)_(.*)", lambda m: f"{m[1]} {NANO_MEASURES[m[2]]}", key)
        yield row("NanoR2MED", measure.replace("recall_at_100", "recall@100"), value)


def main() -> None:
    with TABLE.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(PublishedScore.__dataclass_fields__)
        for row in rewrite(Path(sys.argv[1])):
            writer.writerow(getattr(row, name) for name in PublishedScore.__dataclass_fields__)


if __name__ == "__main__":
    main()
