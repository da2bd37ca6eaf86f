"""Rows that may name a class of the user's, which replaces the classes in `models.networks`."""

from typing import Any, Self

from pydantic import Field, model_validator

from r2med_ray.models.catalog.needs import PythonModule
from r2med_ray.models.catalog.row import Row
from r2med_ray.settings.own_code import DOTTED_NAME


class OwnClassRow(Row):
    """A model that a class of the user's may load."""

    class_: str = Field(default="", alias="class", pattern=rf"^(?:{DOTTED_NAME})?$")
    """The class that loads the model, e.g. `my_module.MyClass`. The class is called as
    `MyClass(row, device=..., token_budget=...)`, and is imported only when the model is built."""

    version: str = Field(default="", coerce_numbers_to_str=True)
    """A text of the user's. Change it whenever the class changes its results; otherwise the old results are found in
    the store."""

    @model_validator(mode="after")
    def _version_has_its_class(self) -> Self:
        if self.version and not self.class_:
            raise ValueError("`version` is the version of a row's `class`; this row has no `class`")
        return self

    def class_inputs(self) -> dict[str, Any]:
        """Return what the class adds to an artefact's key; an empty dictionary if the row names no class."""
        return {"class": self.class_, "version": self.version} if self.class_ else {}

    @property
    def may_read_pickles(self) -> bool:
        """True also for a row with a class, which reads its files itself."""
        return self.allow_pickle or self.class_ != ""

    def loading_inputs(self) -> dict[str, str]:
        return {} if self.class_ else super().loading_inputs()

    def class_modules(self) -> tuple[PythonModule, ...]:
        """Return the module that must be importable; no module if the row names no class."""
        if not self.class_:
            return ()
        module = self.class_.partition(".")[0]
        how = (
            f"{self.name}: its class {self.class_} can't be imported here, for there is no Python module {module!r}: "
            f"install it, or put its folder on PYTHONPATH"
        )
        return (PythonModule(module, f"the Python module {module}", how),)

    @property
    def how(self) -> str:
        return f"class {self.class_}" if self.class_ else ""
