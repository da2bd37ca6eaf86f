"""Takes keys and passwords out of the record of a benchmark, before anything is shown or written of it."""

from dataclasses import replace

from r2med_ray.reporting.part_records import PartRecord
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.secrets import scrubbed, scrubbed_values


def without_secrets(record: BenchmarkRecord) -> BenchmarkRecord:
    """Return a record whose texts are scrubbed; see `secrets.scrubbed`.

    Names of systems and tasks, ids and figures stay as they are, because the files of a report are joined by them.
    """
    return replace(
        record,
        config=scrubbed_values(record.config),
        tasks=tuple(
            replace(task, revision=scrubbed(task.revision), warnings=tuple(map(scrubbed, task.warnings)))
            for task in record.tasks
        ),
        systems=tuple(
            replace(
                system,
                description=scrubbed(system.description),
                settings=scrubbed_values(system.settings),
                differences=tuple(map(scrubbed, system.differences)),
                computed=tuple(map(_scrubbed_part, system.computed)),
                models=tuple(
                    replace(each, model=scrubbed(each.model), revision=scrubbed(each.revision))
                    for each in system.models
                ),
            )
            for system in record.systems
        ),
        results=tuple(replace(result, left_out=scrubbed_values(result.left_out)) for result in record.results),
        missing=tuple(replace(entry, needs=scrubbed(entry.needs)) for entry in record.missing),
        stages=tuple(
            replace(
                stage,
                unit=scrubbed(stage.unit),
                cost=scrubbed(stage.cost),
                slow=scrubbed(stage.slow),
                made=_scrubbed_part(stage.made) if stage.made else None,
            )
            for stage in record.stages
        ),
    )


def _scrubbed_part(part: PartRecord) -> PartRecord:
    return replace(part, part=scrubbed(part.part), cost=scrubbed(part.cost))
