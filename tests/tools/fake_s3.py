"""An S3 server in this process, for tests that need one which fails on demand.

It keeps objects in memory and checks what a real server checks: signatures (AWS Signature Version 4),
that every x-amz-* header is signed, and that a body has the hash that its request names. `fault`, a
function of the method and the key, makes a request fail: it returns "drop" (the connection is closed
without an answer), "busy" (503), "lost" (the request is done, and its answer does not arrive) or None.
"""

import hashlib
import hmac
import http.server
import threading
import urllib.parse

KEY, SECRET, REGION = "test-key", "test-secret", "eu-test-1"


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def wrong_signature(self, path, query):
        """Says what is wrong with the request's signature; None: nothing."""
        header = self.headers.get("Authorization", "")
        if not header.startswith("AWS4-HMAC-SHA256 "):
            return "none"
        parts = dict(part.strip().split("=", 1) for part in header.split(" ", 1)[1].split(","))
        key, *scope = parts["Credential"].split("/")
        if key != KEY or scope[1:] != [REGION, "s3", "aws4_request"]:
            return f"credential {parts['Credential']}"
        signed = parts["SignedHeaders"].split(";")
        for name in self.headers:
            if name.lower().startswith("x-amz-") and name.lower() not in signed:
                return f"{name} is not signed"
        canonical = "\n".join(
            [self.command, path, query,
             *(f"{name}:{self.headers[name].strip()}" for name in signed), "",
             parts["SignedHeaders"], self.headers["x-amz-content-sha256"]])
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], "/".join(scope),
                          hashlib.sha256(canonical.encode()).hexdigest()])
        signing = ("AWS4" + SECRET).encode()
        for part in scope:
            signing = sign(signing, part)
        right = hmac.new(signing, text.encode(), hashlib.sha256).hexdigest()
        return None if right == parts["Signature"] else "another signature"

    def handle_one(self):
        store = self.server.store
        if self.headers.get("Expect") == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        bucket, _, key = urllib.parse.unquote(path)[1:].partition("/")
        fault = store.fault(self.command, key) if store.fault else None
        if fault == "drop":
            self.close_connection = True
            return
        if fault == "busy":
            return self.refuse(503, "SlowDown")
        if wrong := self.wrong_signature(path, query):
            store.mistakes.append(f"{self.command} {self.path}: {wrong}")
            return self.refuse(403, "SignatureDoesNotMatch")
        if hashlib.sha256(body).hexdigest() != self.headers["x-amz-content-sha256"]:
            store.mistakes.append(f"{self.command} {self.path}: another body")
            return self.refuse(400, "XAmzContentSHA256Mismatch")
        if bucket not in store.buckets:
            return self.refuse(404, "NoSuchBucket")
        with store.lock:
            done = self.apply(store, store.buckets[bucket], key,
                              dict(urllib.parse.parse_qsl(query, keep_blank_values=True)), body)
        if fault == "lost":
            self.close_connection = True
            return
        if isinstance(done[1], str):
            return self.refuse(*done)
        self.answer(*done)

    def apply(self, store, objects, key, query, body):
        """Does the request. The status, body and headers of its answer."""
        sha256 = self.headers.get("x-amz-meta-sha256", "")
        if self.command == "PUT" and "uploadId" in query:
            if query["uploadId"] not in store.uploads:
                return 404, "NoSuchUpload"
            store.uploads[query["uploadId"]][2][int(query["partNumber"])] = body
            return 200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}
        if self.command == "PUT":
            store.puts.append(key)
            objects[key] = (body, sha256)
            return 200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}
        if self.command == "POST" and "uploads" in query:
            name = f"upload-{len(store.uploads)}-&<"
            store.uploads[name] = (key, sha256, {})
            escaped = name.replace("&", "&amp;").replace("<", "&lt;")
            return 200, f"<R><UploadId>{escaped}</UploadId></R>".encode(), {}
        if self.command == "POST":
            if query["uploadId"] not in store.uploads:
                return 404, "NoSuchUpload"
            _, sha256, parts = store.uploads.pop(query["uploadId"])
            objects[key] = (b"".join(parts[number] for number in sorted(parts)), sha256)
            store.puts.append(key)
            return 200, b"<R></R>", {}
        if self.command == "DELETE":
            if "uploadId" in query:
                store.uploads.pop(query["uploadId"], None)
            else:
                objects.pop(key, None)
            return 204, b"", {}
        if key not in objects:
            return 404, "NoSuchKey"
        content, sha256 = objects[key]
        return 200, content, {"x-amz-meta-sha256": sha256, "Content-Length": str(len(content))}

    do_PUT = do_GET = do_HEAD = do_POST = do_DELETE = handle_one


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # clients that were killed


class FakeS3:
    """`objects`, `get` and `remove` as of the real servers in cluster_servers.py. `mistakes`: requests
    that a real server would have refused. `puts`: the keys of all uploads, in their order."""

    def __init__(self):
        self.buckets, self.uploads, self.mistakes, self.puts = {}, {}, [], []
        self.fault = None
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.store = self
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.environment = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                            "AWS_REGION": REGION}

    def make_bucket(self, bucket):
        self.buckets[bucket] = {}

    def objects(self, bucket):
        with self.lock:
            return {key: len(content) for key, (content, _) in self.buckets[bucket].items()}

    def get(self, bucket, key):
        with self.lock:
            return self.buckets[bucket][key][0]

    def remove(self, bucket, key):
        with self.lock:
            self.buckets[bucket].pop(key)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
