"""Fills in the dtype `fastest` before any key is asked for, so that all processes of a job agree about it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from r2med_ray.errors import NotAtHand
from r2med_ray.first_stage import FirstStage, ShardedFirstStage
from r2med_ray.first_stages.measuring_dtypes import is_unmeasured, measured_as, stored_fastest, with_fastest
from r2med_ray.models.catalog.fastest import FastestDtype
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem
from r2med_ray.workbench.runner import Runner

logger = logging.getLogger(__name__)

UNMEASURED = FastestDtype(dtype="float32")

FindFastest: TypeAlias = Callable[[ShardedFirstStage], FastestDtype]


def find_fastest(store: ArtifactStore, runner: Runner, first_stage: ShardedFirstStage) -> FastestDtype:
    """Return what was found for a first stage, by earlier jobs or, if the runner measures, now.

    Of a plan, what wasn't found earlier is said to be float32, unmeasured.
    """
    if not runner.measures:
        return stored_fastest(store, first_stage, runner.workers("encode").threads) or UNMEASURED
    try:
        runner.require(first_stage.row)
        return runner.fastest(first_stage)
    except NotAtHand:  # whoever asks the model for vectors is told so
        return UNMEASURED


@dataclass(frozen=True, slots=True)
class Dtypes:
    """Gives first stages their dtype, the same one to all that one model works for."""

    runner: Runner
    find: FindFastest
    _found: dict[str, FastestDtype] = field(default_factory=dict)

    def known(self, first_stage: FirstStage) -> FirstStage:
        """Return a first stage that knows what `fastest` is, if it has to."""
        if first_stage.work == "nothing" or not is_unmeasured(first_stage) or self.runner.device != "cpu":
            return first_stage
        measured = measured_as(first_stage)
        group = measured.artifact_group
        if group not in self._found:
            self._found[group] = found = self.find(measured)
            logger.info("%s: dtype `fastest` is %s: %s", measured.label, found.dtype, found.describe())
        return with_fastest(first_stage, self._found[group])

    def of_system(self, system: ResolvedSystem) -> ResolvedSystem:
        """Return a system whose first stages know their dtype."""
        return system.with_first_stages(self.known)

    def of_benchmark(self, benchmark: ResolvedBenchmark) -> ResolvedBenchmark:
        """Return a benchmark whose first stages know their dtype."""
        return replace(benchmark, systems=tuple(map(self.of_system, benchmark.systems)))
