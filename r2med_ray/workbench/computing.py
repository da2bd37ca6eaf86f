"""What a plan says of how models compute: device, dtype, threads and lengths, before anything runs.

A report says the same of what was done; see `made`.
"""

from collections.abc import Iterator, Sequence

from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.preparation import maker_label
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.row import Row
from r2med_ray.models.networks.pair_scorers import row_of_encoder
from r2med_ray.settings.pools import Pool
from r2med_ray.systems import Names, ResolvedBenchmark
from r2med_ray.workbench.runner import Runner


def computing_lines(benchmark: ResolvedBenchmark, runner: Runner) -> Iterator[str]:
    """Yield one line for each model: the systems that it works for, and how it computes."""
    names: dict[str, list[str]] = {}
    for system in benchmark.systems:
        said = [line for each in system.searched_with if (line := _of_retriever(each, runner))]
        said += [_of_scorer(row, benchmark.names, runner) for row in system.scorers]
        said += [_of_model(row) for row in (system.language_model, *system.reranking_models) if row]
        for line in said:
            names.setdefault(line, []).append(system.name)
    for line, systems in names.items():
        yield f"{line}; for {', '.join(dict.fromkeys(systems))}"


def _of_retriever(first_stage: FirstStage, runner: Runner) -> str:
    row = first_stage.row
    if first_stage.work != "encode" or not isinstance(row, Row):
        return ""
    lengths = [getattr(row, "query_max_length", None), first_stage.model_facts().max_length]
    return _line(maker_label(first_stage), row, runner.workers("encode"), runner, lengths)


def _of_scorer(row: RerankerRow, names: Names, runner: Runner) -> str:
    is_encoder = row.kind == "maxsim"
    network, pool = row_of_encoder(row, names.catalog) if is_encoder else row, runner.workers("rerank")
    return _line(row.name, network, pool, runner, [network.max_length])


def _of_model(row: LanguageModelRow) -> str:
    limit = row.sampling.max_tokens
    most = f"at most {limit} tokens an answer" if limit else "answers of any length"
    return f"{row.name}: {most}, by " + (f"vLLM, dtype {row.dtype}" if row.is_served else "a service")


def _why(row: Row) -> str:
    return f": {row.found_dtype.describe()}" if row.found_dtype else ""


def _line(name: str, row: Row, pool: Pool, runner: Runner, lengths: Sequence[int | None]) -> str:
    """Return how a checkpoint computes. Tokenizer or positions may allow fewer tokens than `lengths`."""
    dtype = row.resolved_dtype("cuda" if pool.gpus else runner.device)
    chosen = f" (by `{row.dtype}`{_why(row)})" if row.dtype in ("auto", "fastest") else ""
    most = sorted({length for length in lengths if length})
    read = f", at most {' or '.join(map(str, most))} tokens" if most else ""
    device = f"a GPU {runner.gpu or 'of an unknown kind'}" if pool.gpus else f"a CPU, {pool.threads} thread(s)"
    by = ", by vLLM" if isinstance(row, EncoderRow) and row.engine == "vllm" else ""
    return f"{name}: {dtype}{chosen}{read}, on {device}{by}"
