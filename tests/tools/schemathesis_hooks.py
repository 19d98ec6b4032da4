"""For tests/full.sh schemathesis: half of the requests are about the document that is there, and
answers are short, so that thousands fit into minutes."""

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
        if name in body and (limit not in body or body[limit] in range(1, 4097)):
            body[limit] = 4
    if body.get("max_completion_tokens") in range(1, 4097):
        body["max_completion_tokens"] = 4
    return body


@schemathesis.hook
def map_path_parameters(context, parameters):
    operation = context.operation
    is_read = operation.method == "get" and operation.path.startswith("/v1/documents/")
    if is_read and parameters and is_half(parameters.get("id")):
        return {**parameters, "id": DOCUMENT}
    return parameters
