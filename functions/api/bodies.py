"""The bodies of requests, as the OpenAPI document tells them. What reads them is stricter where JSON Schema has no words."""

from typing import Any

from functions.api.part_form import DATA
from functions.api.upload import ANCHOR, FILE, PURPOSE, SECONDS
from shared.core import assignment, batch_request
from shared.core.contract import Contract, MetadataRule
from shared.services.intake import INPUT
from shared.services.s3_files import URI
from shared.services.upload_parts import LEAST_URL_PART, PARTS
from shared.services.uploads import URLS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
MD5: Schema = {"type": ["string", "null"], "pattern": "^[0-9A-Fa-f]{32}$"}
ANCHORS: Schema = {"type": "string", "enum": ["created_at"]}
PURPOSES: Schema = {"type": "string", "enum": [INPUT]}


def create_batch(contract: Contract) -> Schema:
    """Tell the body of a create."""
    properties = {
        "input_file_id": TEXT,
        "endpoint": {"type": "string", "enum": list(contract.endpoints)},
        "completion_window": {"type": "string", "enum": list(contract.windows)},
        "metadata": _or_null(_METADATA[contract.metadata]),
        **{name: _or_null(_OPTIONS[name]) for name in sorted(contract.options)},
    }
    properties |= {name: _or_null({**properties[name], "default": value}) for name, value in contract.defaults.items()}
    return _json(_object(properties, batch_request.required(contract)))


def retry_batch(contract: Contract) -> Schema:
    """Tell the body of a retry: what it changes; it may be left out."""
    window = {"type": "string", "enum": list(contract.windows)}
    metadata = _METADATA[contract.metadata]
    changes = {"completion_window": _or_null(window), "metadata": _or_null(metadata)}
    return {"content": _json(_object(changes, []))["content"]}


def upload_file(contract: Contract) -> Schema:
    """Tell the form of an upload, and the object that takes its place where files may come from S3."""
    seconds = _range(*contract.expires_after)
    fields: Schema = {
        FILE: {"type": "string", "format": "binary"},
        PURPOSE: PURPOSES,
        ANCHOR: ANCHORS,
        SECONDS: seconds,
    }
    if contract.form_seconds is not None:
        fields[contract.form_seconds] = seconds
    form = _object(fields, [FILE, PURPOSE]) | {"dependentRequired": {ANCHOR: [SECONDS], SECONDS: [ANCHOR]}}
    body = _form(form)
    if contract.takes_s3:
        properties = {PURPOSE: PURPOSES, URI: _S3, "expires_after": _or_null(_expires_after(contract))}
        body["content"] |= _json(_object(properties, [PURPOSE, URI]))["content"]
    return body


def create_upload(contract: Contract) -> Schema:
    """Tell the body that begins an upload."""
    properties = {
        "filename": TEXT,
        "purpose": PURPOSES,
        "bytes": _range(1, contract.file_bytes),
        "mime_type": TEXT,
        "expires_after": _or_null(_expires_after(contract)),
    }
    return _json(_object(properties, ["filename", "purpose", "bytes", "mime_type"]))


def add_part() -> Schema:
    """Tell the form that adds a part."""
    return _form(_object({DATA: {"type": "string", "format": "binary"}}, [DATA]))


def sign_parts() -> Schema:
    """Tell the body that asks for URLs: of certain parts, or of the first so many."""
    numbers = {"type": "array", "items": _range(1, PARTS), "minItems": 1, "maxItems": URLS}
    least = {"type": ["integer", "null"], "minimum": LEAST_URL_PART}
    return _json(_one_of({"part_numbers": numbers, "count": _range(1, URLS)}, {"part_bytes": least}))


def complete_upload() -> Schema:
    """Tell the body that makes the file: of parts by id, or of those that went to signed URLs by ETag."""
    texts = {"type": "array", "items": TEXT, "minItems": 1}
    return _json(_one_of({"part_ids": texts, "etags": texts}, {"md5": MD5}))


def _object(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _one_of(ways: Schema, others: Schema) -> Schema:
    """Tell an object that has one of some fields."""
    return {"oneOf": [_object({name: schema, **others}, [name]) for name, schema in ways.items()]}


def _or_null(schema: Schema) -> Schema:
    """Tell a field that may be left out, for which null stands as well."""
    null = {"type": [schema["type"], "null"]} | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})
    return {**schema, **null}


def _range(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _after(least: int, most: int) -> Schema:
    return _object({"anchor": ANCHORS, "seconds": _range(least, most)}, ["anchor", "seconds"])


def _expires_after(contract: Contract) -> Schema:
    return _after(*contract.expires_after)


def _json(schema: Schema) -> Schema:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _form(schema: Schema) -> Schema:
    return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}


_S3: Schema = {"type": "string", "pattern": "^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[^\\x00-\\x1f\\x7f]{1,1024}$"}
_OPTIONS: dict[str, Schema] = {
    "callback_url": {"type": "string", "format": "uri", "pattern": "^https://", "maxLength": batch_request.URL_CHARS},
    "execution": {"type": "string", "enum": list(batch_request.OFFERED), "default": "auto"},
    batch_request.S3_PREFIX: _S3,
    "output_expires_after": _after(*batch_request.OUTPUT_SECONDS),
}
_METADATA: dict[MetadataRule, Schema] = {
    MetadataRule.PAIRS: {
        "type": "object",
        "maxProperties": batch_request.METADATA_PAIRS,
        "propertyNames": {"maxLength": batch_request.METADATA_KEY_CHARS},
        "additionalProperties": {"type": "string", "maxLength": batch_request.METADATA_VALUE_CHARS},
    },
    MetadataRule.ASSIGNMENT: _object(
        {
            assignment.DEADLINE: {"type": "string", "format": "date-time"},
            **{name: {"type": "string", "enum": [value]} for name, value in assignment.FIXED.items()},
            **{
                name: {"type": "string", "pattern": f"^{pattern.pattern}$", "description": wanted}
                for name, (pattern, wanted) in assignment.FORMS.items()
            },
        },
        [],
    ),
    MetadataRule.ANY: {"type": "object", "description": f"At most {batch_request.METADATA_BYTES} bytes as JSON."},
}
