"""Imports the class that a user's row names, and refuses a class that doesn't fulfil the protocol.

The class is imported when the model is built. Nothing else imports the class's module.
"""

import inspect
from typing import Any

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.own_class import OwnClassRow
from r2med_ray.settings.own_code import import_named, own_code
from r2med_ray.settings.registry import closest


def import_class(row: OwnClassRow, protocol: type) -> Any:
    """Import the class that a row names. Check that it can be called and has every method of the protocol.

    Args:
        row: names the class.
        protocol: the protocol that the class must fulfil.

    Raises:
        ConfigError: the class is not what it must be; names the row, the class, what is wrong, and the nearest name.
    """
    where = f"{row.name}: class {row.class_!r}"
    found = import_named(row.class_, where, "class", inspect.isclass, "my_module.MyEncoder")
    for member, value in _members(protocol).items():
        if not isinstance(value, property) and not callable(getattr(found, member, None)):
            raise ConfigError(_lacks(row, f"method `{member}`", member, dir(found), protocol))
    try:
        inspect.signature(found).bind(row, device="cpu", token_budget=1)
    except TypeError as error:
        raise ConfigError(
            f"{row.name}: class {row.class_} must take (row, *, device, token_budget); it takes "
            f"{inspect.signature(found)}: {error}"
        ) from error
    return found


def build(own: Any, row: OwnClassRow, protocol: type, **settings: Any) -> Any:
    """Build an object of a class that `import_class` returned.

    Raises:
        ConfigError: the object lacks a property of the protocol.
        OwnCodeError: the class raised an error.
    """
    with own_code(f"{row.name}: class {row.class_}"):
        built = own(row, **settings)
    for member, value in _members(protocol).items():
        if isinstance(value, property) and not hasattr(built, member):
            raise ConfigError(_lacks(row, f"`{member}`", member, dir(built), protocol))
    return built


def _members(protocol: type) -> dict[str, Any]:
    return {name: value for name, value in vars(protocol).items() if not name.startswith("_")}


def _lacks(row: OwnClassRow, what: str, member: str, there: list[str], protocol: type) -> str:
    near = closest(member, [name for name in there if not name.startswith("_")])
    hint = f" It has `{near}`: is that meant?" if near else ""
    return (
        f"{row.name}: class {row.class_} has no {what}.{hint} Needed are {', '.join(_members(protocol))}; see "
        f"`r2med_ray.protocols.{protocol.__name__}`"
    )
