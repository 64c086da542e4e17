"""Description of the server's API: OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stream_can.messages.codecs.codec import DECISION, REST, SET
from stream_can.row_kinds import row_kind
from stream_can.serve.service import Service
from stream_can.serve.settings import ServeSettings
from stream_can.version import __version__

ERROR = {"$ref": "#/components/schemas/Error"}
TEXT = {"text/plain": {"schema": {"type": "string"}}}
LINES = {"application/x-ndjson": {"schema": {"type": "string"}}}
NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
VERSION = {**NAME, "name": "version"}
WHY = {
    400: "it is not JSON, or empty",
    401: "the token is missing or wrong",
    403: "the request comes from a page of another origin, or by another name of this host",
    404: "there is no such model or page",
    408: "the body was not received in time",
    413: "the body is too large",
    415: "the body is encoded",
    422: "a message cannot be read; the whole request was rejected",
    431: "the head of the request is too large",
    503: "too many requests, or nothing can be stored now; try again",
}


def description(service: Service) -> dict[str, Any]:
    """The document for given settings."""
    s, classes = service.settings, service.start.classes
    names = [str(name) for name in classes] if len(classes) > 1 else None
    prediction, label = _prediction(s, names), _label(s)
    secured: list[dict[str, Any]] = [] if s.token is None else [{"bearer": []}, {"basic": []}]
    components: dict[str, Any] = {
        "schemas": {
            "Prediction": prediction,
            "Label": label,
            "Labelled": _labelled(service.statuses),
            "Error": _object(["error"], error={"type": "string"}),
            "Inference": _inference(),
        }
    }
    if secured:
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "basic": {"type": "http", "scheme": "basic"},
        }
    infer = _post("Correct a tensor of probabilities", "Inference", "Inference", [404], single=True)
    model = _get(
        "Metadata of the model", {"application/json": {"schema": {"type": "object"}}}, [404]
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": s.application_id, "version": __version__},
        "security": secured,
        "components": components,
        "paths": {
            "/correct": {"post": _post("Correct predictions", "Prediction", "Prediction")},
            "/labels": {"post": _post("Learn labels", "Label", "Labelled", array_out=False)},
            "/v2/models/{name}/infer": {"parameters": [NAME], "post": infer},
            "/v2/models/{name}/versions/{version}/infer": {
                "parameters": [NAME, VERSION], "post": infer,
            },
            "/v2/models/{name}": {"parameters": [NAME], "get": model},
            "/v2/models/{name}/versions/{version}": {
                "parameters": [NAME, VERSION], "get": model,
            },
            "/v2/models/{name}/ready": {"parameters": [NAME], "get": model},
            "/v2": {"get": _get("Metadata of the server")},
            "/v2/health/live": {"get": _get("Liveness", probe=True)},
            "/v2/health/ready": {"get": _get("Readiness", probe=True)},
            "/livez": {"get": _get("Liveness", TEXT, probe=True)},
            "/readyz": {"get": _get("Readiness", TEXT, probe=True)},
            "/metrics": {"get": _get("Metrics for Prometheus", TEXT)},
            "/status.json": {"get": _get("Status")},
            "/": {"get": _get("Status page", {"text/html": {"schema": {"type": "string"}}})},
            "/openapi.json": {"get": _get("This description")},
        },
    }  # fmt: skip


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _at(paths: dict[str, tuple[dict[str, Any], bool]]) -> dict[str, Any]:
    """Schema of an object with values at dotted paths: their schemas, and which are required."""
    root: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    for path, (schema, needed) in paths.items():
        *above, last = path.split(".")
        inner = root
        for name in above:
            if needed and name not in inner["required"]:
                inner["required"].append(name)
            inner = inner["properties"].setdefault(
                name, {"type": "object", "properties": {}, "required": []}
            )
        inner["properties"][last] = schema
        if needed:
            inner["required"].append(last)
    return root


def _prediction(s: ServeSettings, names: list[str] | None) -> dict[str, Any]:
    number = {"type": "number"} | ({} if s.logits else {"minimum": 0, "maximum": 1})
    row: dict[str, Any] = {"type": "array", "items": number}
    mapping: dict[str, Any] = {"type": "object", "additionalProperties": number}
    if names is not None:
        row |= {"minItems": len(names), "maxItems": len(names)}
        mapping |= {"propertyNames": {"enum": names}}
    scored = {"type": "array", "items": _object(["label", "score"], score=number)}
    kind = row_kind(s.rows)
    forms = [row, mapping, scored, *[number][kind.several_labels :]]
    if not kind.declares_classes:
        forms = [mapping, scored]
    forms.append({"type": ["array", "object"], "description": "A row as platforms write it."})
    text = {"type": ["string", "integer", "null"]}
    fields: dict[str, tuple[dict[str, Any], bool]] = {
        s.fields.probs: ({"anyOf": forms}, True),
        s.id: (text, False),
    }
    for name in (s.model, s.version):
        if name is not None:
            fields[name] = {"type": ["string", "integer"]}, True
    for name in s.segments or ():
        fields[name] = {"type": ["string", "number", "boolean", "null"]}, False
    if s.has_sets:  # in answers
        fields[SET] = {"type": "array", "items": {"type": ["string", "number"]}}, False
    if s.costs:
        fields[DECISION] = {"type": "string", "enum": list(s.costs)}, False
    if not kind.declares_classes:
        above = s.fields.probs.rpartition(".")
        fields[f"{above[0]}{above[1]}{REST}"] = number, False
    return _at(fields)


def _label(s: ServeSettings) -> dict[str, Any]:
    name: dict[str, Any] = {"type": ["string", "number"]}
    if row_kind(s.rows).several_labels:
        mapping = {"type": "object", "additionalProperties": {"type": ["boolean", "null"]}}
        name = {"anyOf": [{"type": "array", "items": name}, mapping]}
    return _at({s.id: ({"type": ["string", "integer"]}, True), s.fields.label: (name, True)})


def _labelled(statuses: Sequence[str]) -> dict[str, Any]:
    counts = {name: {"type": "integer", "minimum": 0} for name in statuses}
    status = {"enum": [*statuses]}
    return _object([*statuses, "statuses"], **counts, statuses={"type": "array", "items": status})


def _inference() -> dict[str, Any]:
    tensor = _object(
        ["name", "shape", "datatype", "data"],
        name={"type": "string"},
        shape={"type": "array", "items": {"type": "integer", "minimum": 0}},
        datatype={"enum": ["FP64", "FP32", "BYTES"]},
        data={"type": "array"},
    )
    tensors = {"type": "array", "items": tensor}
    array = {"type": "array"}
    return _object([], id={"type": "string"}, inputs=tensors, outputs=array, predictions=array)


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _problems(*codes: int) -> dict[str, Any]:
    return {str(code): {"description": WHY[code], "content": _json(ERROR)} for code in codes}


def _post(
    summary: str,
    in_: str,
    out: str,
    problems: Sequence[int] = (),
    *,
    single: bool = False,
    array_out: bool = True,
) -> dict[str, Any]:
    """Schema of a body: one object, or if not ``single`` also an array or lines."""
    input_, output = ({"$ref": f"#/components/schemas/{name}"} for name in (in_, out))
    body, answer = _json(input_), _json(output)
    if not single:
        many = {"anyOf": [input_, {"type": "array", "items": input_, "minItems": 1}]}
        body = _json(many) | LINES
        if array_out:
            answer = _json({"anyOf": [output, {"type": "array", "items": output}]}) | LINES
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": body},
        "responses": {
            "200": {"description": "done", "content": answer},
            **_problems(400, 401, 403, 408, 413, 415, 422, 431, 503, *problems),
        },
    }


def _get(
    summary: str,
    content: dict[str, Any] | None = None,
    problems: Sequence[int] = (),
    *,
    probe: bool = False,
) -> dict[str, Any]:
    content = content or _json({"type": "object"})
    responses: dict[str, Any] = {"200": {"description": "done", "content": content}}
    responses |= _problems(*((403,) if probe else (401, 403)), *problems)
    if probe:
        responses["503"] = {"description": "not now", "content": content}
    return {"summary": summary, "responses": responses, **({"security": []} if probe else {})}
