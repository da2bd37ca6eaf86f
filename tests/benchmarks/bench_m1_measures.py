"""M1: from a TREC run file on disk to nDCG@10, AP, R@1000 and RR of every query.

    python -m tests.benchmarks.bench_m1_measures [--small]

    A  pytrec_eval: text → dict of dicts → trec_eval        B  ranx, after its compilation        D  r2med_ray

First A and D must agree to 1e-9 for every query, ties included. Then A, B and D take turns in one process. The peak
memory of A and of D is measured in a process of its own for each. There are 2,000 queries x 1,000 documents.
`--small` has 20 x 100, leaves out ranx and has no bar.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.benchmarks.findings import Findings, Measured
from tests.benchmarks.rounds import print_seconds, seconds_per_round, times_as_fast

MEASURES = {"nDCG@10": "ndcg_cut.10", "AP": "map", "R@1000": "recall.1000", "RR": "recip_rank"}
RANX_MEASURES = ["ndcg@10", "map", "recall@1000", "mrr"]
ROUNDS = 5
TOLERANCE = 1e-9

PerQuery = dict[str, dict[str, float]]


def pytrec_eval_values(run: Path, qrels: Path) -> PerQuery:
    import pytrec_eval

    with qrels.open() as lines:
        judged = pytrec_eval.parse_qrel(lines)
    with run.open() as lines:
        ranked = pytrec_eval.parse_run(lines)
    theirs = pytrec_eval.RelevanceEvaluator(judged, set(MEASURES.values())).evaluate(ranked)
    return {
        query_id: {ours: values[name.replace(".", "_")] for ours, name in MEASURES.items()}
        for query_id, values in theirs.items()
    }


def ranx_means(run: Path, qrels: Path) -> dict[str, float]:
    import ranx

    judged = ranx.Qrels.from_file(str(qrels), kind="trec")
    return ranx.evaluate(judged, ranx.Run.from_file(str(run), kind="trec"), RANX_MEASURES, make_comparable=True)


def our_values(run: Path, qrels: Path) -> PerQuery:
    from r2med_ray.evaluation.evaluate import evaluate_file
    from r2med_ray.evaluation.measures import Measure
    from r2med_ray.evaluation.trec import read_qrels

    return dict(evaluate_file(run, read_qrels(qrels), [Measure.parse(name) for name in MEASURES]).per_query)


def make_files(folder: Path, num_queries: int, depth: int) -> tuple[Path, Path]:
    """Write a run with ties, and graded qrels. Some judged documents are ranked and some are in no ranking."""
    import numpy as np

    random = np.random.default_rng(7)
    run, qrels = folder / "run.trec", folder / "qrels.trec"
    with run.open("w") as run_lines, qrels.open("w") as qrels_lines:
        for query in range(num_queries):
            numbers = random.permutation(np.unique(random.integers(0, 500_000, 2 * depth)))[:depth].tolist()
            scores = np.sort(random.normal(15, 4, depth).round(3))[::-1].tolist()
            run_lines.writelines(
                f"query-{query} Q0 {_doc_id(number)} {rank} {score} bench\n"
                for rank, (number, score) in enumerate(zip(numbers, scores, strict=True), start=1)
            )
            judged = [*random.choice(numbers, 3, replace=False).tolist(), 600_000 + query]
            grades = random.integers(0, 3, len(judged)).tolist()
            grades[0] = 1
            qrels_lines.writelines(
                f"query-{query} 0 {_doc_id(number)} {grade}\n" for number, grade in zip(judged, grades, strict=True)
            )
    return run, qrels


def _doc_id(number: int) -> str:
    return f"topic_{number % 997}/passage_{number}.txt"


def require_agreement(findings: Findings, run: Path, qrels: Path) -> None:
    theirs, ours = pytrec_eval_values(run, qrels), our_values(run, qrels)
    compared = 0
    for query_id, values in theirs.items():
        for name, value in values.items():
            if not abs(ours[query_id][name] - value) <= TOLERANCE:
                claim = f"{name} of {query_id} is {value}, as in trec_eval, and not {ours[query_id][name]}"
                findings.gate(claim, holds=False)
            compared += 1
    findings.gate(f"{compared} values agree within {TOLERANCE}", holds=True)


def peak_megabytes(name: str, run: Path, qrels: Path) -> float:
    command = [sys.executable, "-m", "tests.benchmarks.bench_m1_measures", "--memory-of", name, str(run), str(qrels)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def own_peak_megabytes() -> float:
    """Return the peak memory of this process. getrusage would count the memory that its parent held before exec."""
    if not Path("/proc/self/status").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--memory-of", nargs=3, metavar=("NAME", "RUN", "QRELS"))
    arguments = parser.parse_args()
    contestants = {"A": pytrec_eval_values, "B": ranx_means, "D": our_values}
    if arguments.memory_of:
        name, run, qrels = arguments.memory_of
        contestants[name](Path(run), Path(qrels))
        print(own_peak_megabytes())
        return
    findings = Findings(__file__, small=arguments.small)
    if arguments.small:
        del contestants["B"]
        findings.leave_out("M1 ranx", "it is compiled first, which takes longer than the rest")
    with tempfile.TemporaryDirectory() as folder:
        run, qrels = make_files(Path(folder), *((20, 100) if arguments.small else (2000, 1000)))
        print(f"{run.stat().st_size / 2**20:.1f} MB")
        require_agreement(findings, run, qrels)
        memory = {name: peak_megabytes(name, run, qrels) for name in ("A", "D")}
        works = {name: partial(contestant, run, qrels) for name, contestant in contestants.items()}
        seconds = seconds_per_round(works, ROUNDS)
    items = dict.fromkeys(seconds, 1)
    print_seconds(seconds, items, "files")
    findings.add("M1 pytrec_eval", times_as_fast(seconds, items, "D", "A"))
    if "B" in seconds:
        findings.add("M1 ranx", times_as_fast(seconds, items, "D", "B"))
    print(f"peak memory  A {memory['A']:.0f} MB  D {memory['D']:.0f} MB")
    findings.add("M1 memory", Measured.once(memory["D"] / memory["A"]))
    findings.close()


if __name__ == "__main__":
    main()
