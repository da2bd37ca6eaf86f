"""Vectors as the bytes of their components, which is how they are stored.

Parquet reads a vector of fixed size ten times as fast if it is one value: a list costs work for each component. The
bytes are those in memory, little-endian, so no byte is copied on the way.
"""

import sys
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

COMPONENT = b"r2med.component"
"""Key in the metadata of a column: the type of a component, as Arrow spells it."""

COMPONENTS: Mapping[str, pa.DataType] = {str(kind): kind for kind in (pa.float16(), pa.float32(), pa.float64())}


def as_bytes(table: pa.Table) -> pa.Table:
    """Return a table whose vectors are binary values of fixed size; other columns stay as they are.

    Columns of vectors are lists of fixed size whose components are floating-point numbers, and lists of such lists.
    A column with a value that is missing stays as it is.
    """
    assert sys.byteorder == "little", "vectors are stored in the order of bytes of x86 and ARM"
    for position, field in enumerate(table.schema):
        component = _component(field.type)
        column = table.column(position)
        if component is None or any(map(_has_null, column.chunks)):
            continue
        kind = _binary(field.type)
        chunks = pa.chunked_array([_packed(chunk) for chunk in column.chunks], kind)
        table = table.set_column(position, pa.field(field.name, kind, metadata={COMPONENT: str(component)}), chunks)
    return table


def as_vectors(table: pa.Table) -> pa.Table:
    """Return the table that `as_bytes` was given. Vectors that are stored as lists stay as they are."""
    for position, field in enumerate(table.schema):
        name = (field.metadata or {}).get(COMPONENT)
        if name is None:
            continue
        component = COMPONENTS[name.decode()]
        chunks = [_unpacked(chunk, component) for chunk in table.column(position).chunks]
        table = table.set_column(position, field.name, pa.chunked_array(chunks, _vectors(field.type, component)))
    return table


def _component(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of a component; None if a column of this type holds no vectors."""
    if pa.types.is_list(kind):
        return _component(kind.value_type)
    is_vector = pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type) and kind.list_size
    return kind.value_type if is_vector else None


def _has_null(array: pa.Array) -> bool:
    """Return whether a vector is missing, or a list of vectors, or a component."""
    is_list = pa.types.is_list(array.type) or pa.types.is_fixed_size_list(array.type)
    return bool(array.null_count) or (is_list and _has_null(array.flatten()))


def _binary(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_binary(kind.value_type))
    return pa.binary(kind.list_size * kind.value_type.bit_width // 8)


def _vectors(kind: pa.DataType, component: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_vectors(kind.value_type, component))
    return pa.list_(component, kind.byte_width * 8 // component.bit_width)


def _packed(vectors: pa.Array) -> pa.Array:
    if pa.types.is_list(vectors.type):
        return pa.ListArray.from_arrays(_offsets(vectors), _packed(vectors.flatten()))
    components, kind = vectors.flatten(), _binary(vectors.type)
    width = components.type.bit_width // 8
    data = components.buffers()[1].slice(components.offset * width, len(components) * width)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(vectors), [None, data])


def _unpacked(packed: pa.Array, component: pa.DataType) -> pa.Array:
    if pa.types.is_list(packed.type):
        return pa.ListArray.from_arrays(_offsets(packed), _unpacked(packed.flatten(), component))
    width, dim = packed.type.byte_width, packed.type.byte_width * 8 // component.bit_width
    data = packed.buffers()[1].slice(packed.offset * width, len(packed) * width)
    return pa.FixedSizeListArray.from_arrays(pa.Array.from_buffers(component, len(packed) * dim, [None, data]), dim)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """Return the offsets of lists, from 0 on even if the array is a part of another one."""
    return pc.subtract(lists.offsets, lists.offsets[0])
