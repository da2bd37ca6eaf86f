"""The errors of the package.

R2MedError
├── ConfigError      a setting or a name is wrong; raised before anything starts
├── DataError        a file, a record or a vector is wrong; names the file, the line or the id
│   └── NotAtHand    a file, a checkpoint, a key or a device is not here; says what, and how to get it
├── ArtifactError    a stored artefact is damaged or is not what its key says
│   └── StoreError   the store itself can't be reached, read or written to; says nothing about an artefact
├── CapacityError    the cluster can't ever run what the plan asks for
├── OwnCodeError     code that a user's file names failed; names the row, the class or function, and the line
├── StageError       a stage failed on a worker; names the stage and the unit (shard, query, replica)
│   └── ContextError conversations are too long for a language model; names them
├── StoppedError     work was ended because other work beside it failed; the other error is the one to report
└── InterruptedByUser  somebody ended the work with Ctrl-C; says what is stored

`ConfigError`, `DataError`, `ArtifactError`, `CapacityError` and `OwnCodeError` are for the user and are printed
without a traceback. All errors of this module survive pickling, because they travel between Ray processes. None
shows a key or a password: the text of an error is scrubbed whenever somebody asks for it.
"""

from collections.abc import Sequence

from r2med_ray.secrets import scrubbed

NAMED = 10
"""How many queries an error names. The error only counts the other queries."""


class R2MedError(Exception):
    """Base class of every error that this package raises on purpose."""

    def __str__(self) -> str:
        return scrubbed(super().__str__())


class ConfigError(R2MedError):
    """A setting or a name is wrong. The message gives the value and the nearest valid one."""


class DataError(R2MedError):
    """An input is wrong. The message gives the file and line, or the id, and what would be right."""


class NotAtHand(DataError):  # noqa: N818  (the name says what is wrong, without the word "error")
    """What a result needs is not here: data, weights, generated texts, an API key or a device.

    Args:
        what: the thing in a few words, e.g. "BAAI/bge-large-en-v1.5 at d4aa6901d3a4".
        how: the whole message: where the thing was looked for, and how to get it. If left out, the message is
            `needs WHAT`.
    """

    def __init__(self, what: str, how: str = "") -> None:
        super().__init__(how or f"needs {what}")
        self.what = what

    def __reduce__(self) -> tuple[type["NotAtHand"], tuple[str, str]]:
        return type(self), (self.what, str(self))


class ArtifactError(R2MedError):
    """A stored artefact is damaged, incomplete, or not the one that its key promises."""


class StoreError(ArtifactError):
    """The store can't be reached, read or written to. What is stored there may be whole."""


class CapacityError(R2MedError):
    """The cluster will never have what a stage reserves."""


class OwnCodeError(R2MedError):
    """Code that a user's file names failed or broke its contract. The message names the code and what it did."""


class StoppedError(R2MedError):
    """Work was ended because other work beside it failed. The other error is the one to report."""


class InterruptedByUser(R2MedError):  # noqa: N818  (it is no error of anything)
    """Somebody ended the work with Ctrl-C. The message says what is stored."""


class StageError(R2MedError):
    """A stage failed on one unit of work.

    Args:
        stage: the arrow of the flow, e.g. "encode".
        unit: what the stage failed on, e.g. "shard 3 of 8".
        cause: the failure, as text.
    """

    def __init__(self, stage: str, unit: str, cause: str) -> None:
        super().__init__(f"{stage} failed on {unit}: {cause}")
        self.stage = stage
        self.unit = unit
        self.cause = cause

    def __reduce__(self) -> tuple[type["StageError"], tuple[object, ...]]:
        return type(self), (self.stage, self.unit, self.cause)


class ContextError(StageError):
    """Conversations are too long for a language model, even in their shortest versions.

    Args:
        stage: see `StageError`.
        unit: see `StageError`; says how long the conversations are.
        cause: what the service said.
        units: the `unit` of each prompt that is too long.
    """

    def __init__(self, stage: str, unit: str, cause: str, units: tuple[str, ...]) -> None:
        super().__init__(stage, unit, cause)
        self.units = units

    def __reduce__(self) -> tuple[type["ContextError"], tuple[object, ...]]:
        return type(self), (self.stage, self.unit, self.cause, self.units)


def named(ids: Sequence[str]) -> str:
    """Return a text with the first `NAMED` ids and the number of the others."""
    others = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return f"{', '.join(ids[:NAMED])}{others}"
