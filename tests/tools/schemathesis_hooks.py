"""For tests/full.sh schemathesis: one document is indexed at a time (more wait, and too many are
told 503, which would count as the server's mistake), half of the requests are about the document that is there, and
answers are short, so that thousands fit into minutes."""

import time

import requests
import schemathesis

DOCUMENT = "lease.txt"
LIMITS = {"question": "max_tokens", "messages": "max_tokens", "input": "max_output_tokens"}


def is_half(text):
    return isinstance(text, str) and len(text) % 2 == 1


@schemathesis.hook
def map_body(_context, body):
    if not isinstance(body, dict):
        return body
    body = dict(body)
    for name in ("document", "model"):
        if is_half(body.get(name)):
            body[name] = DOCUMENT
    for name, limit in LIMITS.items():
        if name in body and is_limit(body.get(limit)):
            body[limit] = 4
    if is_limit(body.get("max_completion_tokens")):
        body["max_completion_tokens"] = 4
    if body.get("n") in range(3, 129):
        body["n"] = 2
    return body


def is_limit(value):
    """None counts: as many as fit."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool)
                             and (value == -1 or value > 0))


@schemathesis.hook
def map_path_parameters(context, parameters):
    operation = context.operation
    is_read = operation.method == "get" and operation.path.startswith("/v1/documents/")
    if is_read and parameters and is_half(parameters.get("id")):
        return {**parameters, "id": DOCUMENT}
    return parameters


@schemathesis.hook
def after_call(_context, case, response):
    if case.operation.label != "POST /v1/documents" or response.status_code != 202:
        return
    host = response.request.url.split("/v1/")[0]
    job = host + response.headers["location"][0]
    while requests.get(job, timeout=60).json()["state"] in ("waiting", "running"):
        time.sleep(0.02)
