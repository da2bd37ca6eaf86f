"""The JSON schema of a models file, with which editors check and complete it."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from r2med_ray.models.catalog.load import INSTRUCTIONS, OTHER_SECTIONS
from r2med_ray.models.catalog.parsing import SETS


def models_schema(sections: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """Return the schema of a file.

    Args:
        sections: name of a section → class of its rows.
    """
    others: dict[str, Any] = {name: (Any, None) for name in (INSTRUCTIONS, *OTHER_SECTIONS) if name not in sections}
    rows: dict[str, Any] = {name: (list[row], []) for name, row in sections.items()}  # type: ignore[valid-type]
    file: type[BaseModel] = create_model("ModelsFile", __config__=ConfigDict(extra="forbid"), **others | rows)
    schema = file.model_json_schema()
    for row in schema["$defs"].values():
        for key in SETS:
            if key in row.get("properties", {}):  # the name of a set may stand in its place
                row["properties"][key] = {"anyOf": [{"type": "string"}, row["properties"][key]]}
    return schema
