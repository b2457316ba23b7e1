"""Records as DynamoDB items, and back.

An item is a flat dict of plain values: the record's fields, beside them what only the store needs (keys, index attributes, version, writer). Fields that
are None or an empty tuple are left out; all others are written, so that conditions can speak of them. boto3's own serializer
refuses floats, and gives back Decimals and wrapped bytes, all of which would have to be undone.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import UniversalAttributeValueTypeDef

R = TypeVar("R", bound=msgspec.Struct)

Item = dict[str, Any]


def fields(record: msgspec.Struct) -> Item:
    """Give a record's fields as plain values."""
    values = ((name, getattr(record, name)) for name in record.__struct_fields__)
    return {
        name: msgspec.to_builtins(value, builtin_types=(bytes,))
        for name, value in values
        if value is not None and value != ()
    }


def record(item: Item, type_: type[R]) -> R:
    """Make the record of an item; what only the store needs is passed over."""
    return msgspec.convert(item, type_)


def encode(item: Mapping[str, Any]) -> "dict[str, UniversalAttributeValueTypeDef]":
    """Write plain values as DynamoDB's attributes. A set must be one of strings, and not empty."""
    return {name: _attribute(value) for name, value in item.items()}


def decode(attributes: Mapping[str, Any]) -> Item:
    """Read what `encode` wrote; a set comes back as a sorted list."""
    return {name: _value(attribute) for name, attribute in attributes.items()}


def _attribute(value: object) -> "UniversalAttributeValueTypeDef":  # noqa: PLR0911 - one a type
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int() | float():
            return {"N": repr(value)}
        case bytes():
            return {"B": value}
        case set() | frozenset():
            return {"SS": sorted(value)}
        case list() | tuple():
            return {"L": [_attribute(element) for element in value]}
        case dict():
            return {"M": encode(value)}
        case _:
            raise TypeError(f"no attribute can hold a {type(value).__name__}")


def _value(attribute: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever was stored
    ((kind, value),) = attribute.items()
    match kind:
        case "N":
            return int(value) if value.lstrip("-").isdigit() else float(value)
        case "L":
            return [_value(element) for element in value]
        case "M":
            return decode(value)
        case "SS":
            return sorted(value)
        case "NULL":
            return None
        case _:
            return value
