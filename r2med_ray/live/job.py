"""Serves the search page of a benchmark file until it is interrupted."""

import contextlib
import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import cast

from r2med_ray.first_stage import Computing
from r2med_ray.live.answers import scorer_key
from r2med_ray.live.page import render_page
from r2med_ray.live.preparing import Prepared, narrowed, prepare
from r2med_ray.live.searcher import Searched, Searcher
from r2med_ray.serving.clients import ServedReranker
from r2med_ray.serving.search_app import serve_search_page
from r2med_ray.serving.search_routes import PageContent
from r2med_ray.serving.serve_session import application_name, require_free_port, start_serve
from r2med_ray.settings.config_files import load_with
from r2med_ray.storage.keys import fingerprint
from r2med_ray.systems import ResolvedBenchmark, resolve
from r2med_ray.workbench.bench import Workbench, open_workbench
from r2med_ray.workbench.job_folders import default_base, lasting
from r2med_ray.workbench.on_cluster import ClusterRunner
from r2med_ray.workbench.served import AnsweringModel

logger = logging.getLogger(__name__)


def serve_job(
    config_path: Path,
    *,
    store: str | None = None,
    address: str = "auto",
    overrides: Sequence[str] = (),
    tasks: Sequence[str] = (),
    systems: Sequence[str] = (),
    say: Callable[[str], None],
) -> None:
    """Make what a benchmark file's systems need, serve the search page, and wait for an interrupt.

    Args:
        config_path: the benchmark file.
        store: folder or URI of the artefacts; `store` if it is left out.
        address: see `distributed.session.connect`.
        overrides: `key=value` over the file.
        tasks: names of some tasks; all of them if there is no name.
        systems: names of some systems; all of them if there is no name.
        say: is told the page's address once it answers.

    Raises:
        R2MedError: something is wrong with the configuration, the data, the store, the cluster or the port.
    """
    # Its paths travel to processes that may run in another folder.
    benchmark = narrowed(load_with(resolve, config_path.absolute(), overrides), tasks, systems)
    limits = benchmark.config.resources.search_page
    require_free_port(limits.host, limits.port)
    with open_workbench(
        lasting("store", store or default_base() / "store"),
        address=address,
        names=benchmark.names,
        resources=benchmark.config.resources,
        name=benchmark.config.name,
        ask_for_models=True,
        cluster=benchmark.config.cluster,
    ) as bench:
        prepared = prepare(bench.dtypes.of_benchmark(benchmark), bench)
        with served(benchmark, bench, prepared) as url:
            say(f"{benchmark.config.name}: {url} answers until Ctrl-C; {url}openapi.json describes it for programs")
            _wait_for_interrupt()
            logger.info("interrupted: the search page ends, and what is stored stays")


@contextmanager
def served(benchmark: ResolvedBenchmark, bench: Workbench, prepared: Prepared) -> Iterator[str]:
    """Serve a page for the length of a `with` block, and yield its URL.

    Args:
        benchmark: has the page's settings.
        bench: is open on a cluster.
        prepared: what can be asked.

    Raises:
        ConfigError: Serve runs there without an HTTP proxy.
        StageError: a model or the page doesn't start.
    """
    limits = benchmark.config.resources.search_page
    runner = cast(ClusterRunner, bench.runner)
    proxy = start_serve(http=True, host=limits.host, port=limits.port or None)
    assert proxy is not None
    pool = runner.workers("encode")
    gpus = limits.gpus if limits.gpus != "auto" else 0.25 * bool(pool.gpus)
    with ExitStack() as running:
        searched = Searched(
            store=bench.store.uri,
            tasks=prepared.tasks,
            systems=prepared.systems,
            computing=Computing.of(
                benchmark.config.resources.encode, device=runner.device, threads=pool.threads, gpus=gpus
            ),
            scorers=_started_scorers(runner, prepared, running),
            addresses=_started_models(runner, prepared, running),
            pair_budget=runner.pair_budget,
        )
        html, policy = render_page()
        content = PageContent(html=html, policy=policy, offer=prepared.offer, questions=prepared.questions)
        name = application_name(benchmark.config.name, "search", fingerprint(limits.model_dump(mode="json")))
        page = serve_search_page(
            name,
            partial(Searcher.open, searched),
            content,
            limits,
            gpus=gpus,
            start_within_s=benchmark.config.resources.no_progress_timeout_s,
        )
        running.enter_context(page)
        yield proxy.url("/")


def _wait_for_interrupt() -> None:
    """Wait for Ctrl-C, or for what ends a container. A shell lets processes in the background ignore the former."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            signal.pause()


def _started_scorers(runner: ClusterRunner, prepared: Prepared, running: ExitStack) -> dict[str, ServedReranker]:
    clients: dict[str, ServedReranker] = {}
    for scorer in (scorer for system in prepared.systems.values() for scorer in system.scorers):
        if scorer_key(scorer) not in clients:
            started = runner.start_scorer(scorer, 1)
            running.callback(started.close)
            clients[scorer_key(scorer)] = started.client
    return clients


def _started_models(runner: ClusterRunner, prepared: Prepared, running: ExitStack) -> dict[str, str]:
    started: dict[str, AnsweringModel] = {}
    addresses: dict[str, str] = {}
    for system in prepared.systems.values():
        for row in filter(None, (system.language_model, *system.reranking_models)):
            if row.is_served:
                engine = runner.engine(row)
                if engine not in started:
                    started[engine] = runner.start_model(row, is_read_along=True)
                    running.callback(started[engine].close)
                address = started[engine].address
                assert address is not None
                addresses[row.name] = address
    return addresses
