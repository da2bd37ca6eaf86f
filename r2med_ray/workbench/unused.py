"""Which artefacts no benchmark of a few uses, so that they can go.

A benchmark is planned, and every artefact that the plan finds is used. So are vectors of queries, trained indexes,
surveys and sentences that go with what was found. What a language model wrote and what a service was paid for always
stays.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import product

from r2med_ray.corpus.convert import names_of
from r2med_ray.corpus.text_survey import KIND as SURVEYS
from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.first_stages.measuring_dtypes import KIND as FINDINGS
from r2med_ray.models.catalog.fastest import MEASURED_DTYPES, FastestDtype
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.systems import ResolvedBenchmark
from r2med_ray.workbench.fastest import Dtypes
from r2med_ray.workbench.local_runner import LocalRunner
from r2med_ray.workbench.plan import make_plan
from r2med_ray.workbench.showing.page_sentences import KIND as SENTENCES
from r2med_ray.workbench.task_sources import find_task
from r2med_ray.workbench.worklog import Worklog

ALWAYS_KEPT = ("generation", "generations", "transcript", "api-vectors", FINDINGS)
"""Kinds of artefacts that were written by a language model, or paid for, or that keys of other artefacts follow."""

DEVICES = ("cpu", "cuda")
"""What artefacts may have been made on. The keys of vectors depend on it, and this machine may not have it."""

QUERIES = "query-"
"""How the kinds of artefacts that are made of queries begin."""


class _Noting(ArtifactStore):
    """A store that notes what is found in it."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.found: dict[str, Artifact] = {}

    def find(self, key: ArtifactKey) -> Artifact | None:
        artifact = super().find(key)
        if artifact is not None:
            self.found[artifact.name] = artifact
        return artifact


def unused(store: ArtifactStore, benchmarks: Iterable[ResolvedBenchmark], *, before: datetime) -> list[str]:
    """Return the names of the artefacts that none of the benchmarks uses.

    Args:
        store: the store.
        benchmarks: the benchmarks whose artefacts stay.
        before: an artefact that was written later, or nobody knows when, is used: a job may just have made it.

    Raises:
        NotAtHand: a task of a benchmark is not on this machine, so what the benchmark uses is not known.
        ConfigError: a benchmark has hard negatives, whose artefacts no plan knows.
    """
    noting = _Noting(store.uri)
    for benchmark in benchmarks:
        if benchmark.config.hard_negatives:
            name = benchmark.config.name
            raise ConfigError(
                f"benchmark {name!r} has hard negatives, and what it uses for them is not known: remove "
                "by name instead, with `r2med artifacts rm`"
            )
        for entry in benchmark.tasks:
            find_task(entry, download=False)
        for device, dtype in product(DEVICES, MEASURED_DTYPES):
            catalog, resources = benchmark.names.catalog, benchmark.config.resources
            runner = LocalRunner(catalog, noting, resources, Worklog(), device=device)
            dtypes = Dtypes(runner, partial(_always, FastestDtype(dtype=dtype)))
            make_plan(dtypes.of_benchmark(benchmark), noting, runner)
    dated = list(store.dated())
    used = {*noting.found, *_beside(list(noting.found.values()), [artifact for artifact, _ in dated])}
    return [each.name for each, written in dated if each.name not in used and written and written < before]


def _always(found: FastestDtype, first_stage: ShardedFirstStage) -> FastestDtype:
    return found


def _beside(found: Sequence[Artifact], every: Sequence[Artifact]) -> Iterator[str]:
    """Yield the names of what goes with artefacts that are used, and of what always stays."""
    corpora = [name for artifact in found for name in names_of(artifact)]
    digests = {artifact.name.partition("/")[2] for artifact in found}
    encoders = [artifact.inputs["encoding"]["document"] for artifact in found if "encoding" in artifact.inputs]
    filled = [artifact for artifact in every if _kind(artifact) == "ann" and artifact.inputs["vectors"] in digests]
    trained = {artifact.inputs.get("trained") for artifact in filled}
    names = {artifact.name for artifact in filled} | {f"ann-trained/{digest}" for digest in trained}
    for artifact in every:
        kind, inputs = _kind(artifact), artifact.inputs
        if (
            kind in ALWAYS_KEPT
            or (kind == SURVEYS and inputs["corpus"] in corpora)
            or artifact.name in names
            or (kind == "bm25" and inputs["terms"] in digests)
            or (kind.startswith((QUERIES, SENTENCES)) and inputs["encoding"]["document"] in encoders)
        ):
            yield artifact.name


def _kind(artifact: Artifact) -> str:
    return artifact.name.partition("/")[0]
