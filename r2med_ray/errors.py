"""The errors of the package.

R2MedError
├── ConfigError      a setting or a name is wrong; raised before anything starts
├── DataError        a file, a record or a vector is wrong; names the file, the line or the id
├── ArtifactError    a stored artefact is damaged or is not what its key says
├── CapacityError    the cluster can't ever run what the plan asks for
└── StageError       a stage failed on a worker; names the stage and the unit (shard, query, replica)

`ConfigError`, `DataError`, `ArtifactError` and `CapacityError` are for the user and are printed without a
traceback. All of them survive pickling, because they travel between Ray processes.
"""


class R2MedError(Exception):
    """Base class: whoever catches it catches what this package raises on purpose."""


class ConfigError(R2MedError):
    """A setting or a name is wrong. The message gives the value and the nearest valid one."""


class DataError(R2MedError):
    """An input is wrong. The message gives the file and line, or the id, and what would be right."""


class ArtifactError(R2MedError):
    """A stored artefact is damaged, half there, or not the one its key promises."""


class CapacityError(R2MedError):
    """The cluster will never have what a stage reserves."""


class StageError(R2MedError):
    """A stage failed on one unit of work.

    Args:
        stage: the arrow of the flow, e.g. "encode".
        unit: what it failed on, e.g. "shard 3 of 8".
        cause: the failure, as text.
    """

    def __init__(self, stage: str, unit: str, cause: str) -> None:
        super().__init__(f"{stage} failed on {unit}: {cause}")
        self.stage = stage
        self.unit = unit
        self.cause = cause

    def __reduce__(self) -> tuple[type["StageError"], tuple[str, str, str]]:
        return type(self), (self.stage, self.unit, self.cause)
