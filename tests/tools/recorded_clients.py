"""Requests as programs of the field send them, for http_test.py: clients that the server has to
serve, with the status that each gets. Headers stand as the programs send them, in their order and
case; names, ids and bodies are shortened."""

ASK = b'{"document":"lease.txt","question":"Who repairs the roof?"}'


class Client:
    """One connection: `pieces` of bytes, each sent when something was answered to the one before."""

    def __init__(self, *pieces, status=200, has=b"", count=1, half_closes=False):
        self.pieces, self.half_closes = pieces, half_closes
        self.status, self.has = status, has  # of every answer; what the body of the last one contains
        self.count = count                   # answers


def head(line, *headers):
    return "\r\n".join((line, *headers)).encode() + b"\r\n\r\n"


def get(line, *headers, **options):
    return Client(head(line, *headers), **options)


def post(line, *headers, body=ASK, has=b'"answer"', **options):
    """Where no header frames the body, its length is added as the last one."""
    framing = ("content-length:", "transfer-encoding:")
    if not any(header.lower().startswith(framing) for header in headers):
        headers += (f"Content-Length: {len(body)}",)
    return Client(head(line, *headers) + body, has=has, **options)


def expecting(line, *headers, body=ASK, has=b'"answer"', **options):
    """Sends its body after 100 Continue."""
    return Client(head(line, *headers, f"Content-Length: {len(body)}", "Expect: 100-continue"), body,
                  has=has, **options)


def chunked(*parts, extension=b"", trailers=b""):
    return b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts) + \
        b"0\r\n" + trailers + b"\r\n"


V1 = "POST /v1/ask HTTP/1.1"
V0 = "POST /v1/ask HTTP/1.0"
UPLOAD = "POST /v1/documents?name=upload HTTP/1.1"
TEXT = b"Mills stand in Osk. " * 200
H = "Host: 127.0.0.1:8017"
LOCAL = "Host: localhost:8017"
JSON = "Content-Type: application/json"
FORM = "Content-Type: application/x-www-form-urlencoded"
CHUNKS = "Transfer-Encoding: chunked"
CURL = ("User-Agent: curl/7.88.1", "Accept: */*")
H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
       "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
JAVA = ("Connection: Upgrade, HTTP2-Settings", f"Content-Length: {len(ASK)}", LOCAL,
        "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA", "Upgrade: h2c",
        "User-Agent: Java-http-client/17.0.15")
UNDICI = ("host: localhost:8017", "connection: keep-alive", "accept: */*", "accept-language: *",
          "sec-fetch-mode: cors", "user-agent: node", "accept-encoding: gzip, deflate")
STAINLESS = ("X-Stainless-Lang: js", "X-Stainless-OS: Linux", "X-Stainless-Arch: x64",
             "X-Stainless-Runtime: node", "X-Stainless-Runtime-Version: v20.14.0",
             "x-stainless-retry-count: 0", "Authorization: Bearer none")
REQUESTS = ("User-Agent: python-requests/2.31.0", "Accept-Encoding: gzip, deflate", "Accept: */*",
            "Connection: keep-alive")
CHROME = ('sec-ch-ua: "Chromium";v="126", "Not/A)Brand";v="8"', "sec-ch-ua-mobile: ?0",
          'sec-ch-ua-platform: "Linux"',
          "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
          "Chrome/126.0.0.0 Safari/537.36")
COOKIES = "Cookie: " + "; ".join(f"_other_app_{i}={'x' * 200}" for i in range(60))
FORWARDED = ("X-Real-IP: 10.0.0.7", "X-Forwarded-For: 10.0.0.7", "X-Forwarded-Proto: https")

CLIENTS = {
    # --- curl ---
    "curl": get("GET /health HTTP/1.1", H, *CURL, has=b"ok"),
    "curl -I": get("HEAD / HTTP/1.1", H, *CURL),
    "curl -0": get("GET /health HTTP/1.0", H, *CURL, has=b"ok"),
    "curl -0 -d": post(V0, H, *CURL, FORM),
    "curl -d: JSON as a form": post(V1, H, *CURL, FORM),
    "curl --json": post(V1, H, "User-Agent: curl/7.88.1", JSON, "Accept: application/json"),
    "curl -H Content-Type: (none)": post(V1, H, *CURL),
    "curl -H text/plain": post(V1, H, *CURL, "Content-Type: text/plain"),
    "curl -H JSON with a charset": post(V1, H, *CURL, "Content-Type: application/json; charset=utf-8"),
    "curl -H JSON in another case": post(V1, H, *CURL, "content-type: Application/JSON;charset=UTF-8"),
    "curl, the same type twice": post(V1, H, *CURL, JSON, "content-type: application/json"),
    "curl -X POST without a body": get(V1, H, *CURL, status=400, has=b"not JSON"),
    "curl -X POST without a document": get(UPLOAD, H, *CURL, status=400, has=b"as the body"),
    "curl --data-binary of an empty file": get(UPLOAD, H, *CURL, "Content-Length: 0",
                                               "Content-Type: application/octet-stream", status=400,
                                               has=b"as the body"),
    "curl -T of an empty file (chunked)": post(UPLOAD, H, *CURL, CHUNKS,
                                               "Content-Type: application/octet-stream",
                                               body=chunked(), status=400, has=b"as the body"),
    "curl -X DELETE -d": post("DELETE /v1/documents/none HTTP/1.1", H, *CURL, JSON, status=404,
                              has=b"not_found"),
    "curl -X GET -d": post("GET /health HTTP/1.1", H, *CURL, FORM, has=b"ok"),
    "curl -X OPTIONS": get("OPTIONS /v1/ask HTTP/1.1", H, *CURL, status=204),
    "curl --request-target '*'": get("OPTIONS * HTTP/1.1", H, *CURL, status=204),
    "curl 7.61: Expect over 1 kB": expecting(V1, H, "User-Agent: curl/7.61.1", "Accept: */*", FORM),
    "curl --data-binary: Expect": expecting(UPLOAD, H, *CURL, "Content-Type: application/octet-stream",
                                            body=TEXT, status=202, has=b'"id"'),
    "curl --data-binary, no type": post(UPLOAD, H, *CURL, FORM, body=TEXT, status=202, has=b'"id"'),
    "curl -T - (chunked)": post(V1, H, *CURL, CHUNKS, "Content-Type: application/json",
                                body=chunked(ASK[:7], ASK[7:])),
    "curl chunked upload": post(UPLOAD, H, *CURL, CHUNKS, "Expect: 100-continue",
                                "Content-Type: application/octet-stream", body=chunked(TEXT),
                                status=202, has=b'"id"'),
    "curl --http2": get("GET /health HTTP/1.1", H, *CURL, *H2C, has=b"ok"),
    "curl --http2 -d": post(V1, H, *CURL, *H2C, JSON),
    "curl -x: as a proxy": get("GET http://127.0.0.1:8017/health HTTP/1.1", H, *CURL,
                               "Proxy-Connection: Keep-Alive", has=b"ok"),
    "curl --compressed": get("GET /health HTTP/1.1", H, *CURL, "Accept-Encoding: deflate, gzip, br, zstd",
                             has=b"ok"),
    "curl -r, -z, --etag-compare": get("GET /health HTTP/1.1", H, *CURL, "Range: bytes=0-3",
                                       "If-Modified-Since: Tue, 01 Jan 2030 00:00:00 GMT",
                                       'If-None-Match: "x"', has=b"ok"),
    "curl, a path that is not encoded": get("GET /v1/documents/Caf\u00e9 HTTP/1.1", H, *CURL, status=404,
                                            has=b'"document"'),
    # --- other programs of the shell ---
    "wget": get("GET /health HTTP/1.1", H, "User-Agent: Wget/1.21.3", "Accept: */*",
                "Accept-Encoding: identity", "Connection: Keep-Alive", has=b"ok"),
    "wget --spider": get("HEAD /health HTTP/1.1", H, "User-Agent: Wget/1.21.3", "Accept: */*",
                         "Accept-Encoding: identity", "Connection: Keep-Alive"),
    "wget --post-data": post(V1, H, "User-Agent: Wget/1.21.3", "Accept: */*",
                             "Accept-Encoding: identity", "Connection: Keep-Alive", FORM),
    "wget 1.11 (HTTP/1.0)": get("GET /health HTTP/1.0", "User-Agent: Wget/1.11.4", "Accept: */*", H,
                                "Connection: Keep-Alive", has=b"ok"),
    "BusyBox wget": get("GET /health HTTP/1.1", H, "User-Agent: Wget", "Connection: close", has=b"ok"),
    "HTTPie": post(V1, H, "User-Agent: HTTPie/3.2.1", "Accept-Encoding: gzip, deflate, br",
                   "Accept: application/json, */*;q=0.5", "Connection: keep-alive", JSON),
    "nc -N: half-closed": post(V1, LOCAL, JSON, half_closes=True),
    "nc, HTTP/1.0, half-closed": post(V0, JSON, half_closes=True),
    "telnet, HTTP/1.0 without Host": get("GET /health HTTP/1.0", has=b"ok"),
    "ab": get("GET /health HTTP/1.0", H, "User-Agent: ApacheBench/2.3", "Accept: */*", has=b"ok"),
    "ab -k": Client(*[head("GET /health HTTP/1.0", "Connection: Keep-Alive", H,
                           "User-Agent: ApacheBench/2.3", "Accept: */*")] * 3, count=3, has=b"ok"),
    "PowerShell": post(V1, LOCAL, "User-Agent: Mozilla/5.0 (Windows NT 10.0; Microsoft Windows "
                       "10.0.19045; en-US) PowerShell/7.4.1", JSON),
    # --- Java ---
    "Java HttpClient: h2c": post(V1, *JAVA, JSON),
    "Java HttpClient, a publisher of unknown length": post(
        V1, JAVA[0], LOCAL, *JAVA[3:], "Transfer-encoding: chunked", JSON, body=chunked(ASK)),
    "Java HttpURLConnection": post(V1, "User-Agent: Java/1.8.0_402", LOCAL,
                                   "Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
                                   "Connection: keep-alive", "Content-type: " + FORM[14:]),
    "Apache HttpClient, StringEntity": post(
        V1, "Content-Type: text/plain; charset=ISO-8859-1", LOCAL, "Connection: Keep-Alive",
        "User-Agent: Apache-HttpClient/4.5.14 (Java/17.0.15)", "Accept-Encoding: gzip,deflate"),
    "OkHttp": post(V1, "Content-Type: application/json; charset=utf-8", LOCAL, "Connection: Keep-Alive",
                   "Accept-Encoding: gzip", "User-Agent: okhttp/4.12.0"),
    # --- Go, Rust, Ruby, PHP, Perl ---
    "Go net/http": post(V1, LOCAL, "User-Agent: Go-http-client/1.1", JSON, "Accept-Encoding: gzip"),
    "Go net/http, io.Pipe": post(V1, LOCAL, "User-Agent: Go-http-client/1.1", CHUNKS, JSON,
                                 "Accept-Encoding: gzip", body=chunked(ASK)),
    "Go net/http, trailers": post(V1, LOCAL, "User-Agent: Go-http-client/1.1", CHUNKS, JSON,
                                  "Trailer: Checksum", "Accept-Encoding: gzip",
                                  body=chunked(ASK, trailers=b"Checksum: 12ab\r\n")),
    "Rust reqwest": post(V1, "content-type: application/json", "accept: */*", "host: localhost:8017"),
    "Ruby Net::HTTP": post(V1, "Accept-Encoding: gzip;q=1.0,deflate;q=0.6,identity;q=0.3",
                           "Accept: */*", "User-Agent: Ruby", LOCAL, FORM),
    "PHP, file_get_contents": post(V0, LOCAL, "Connection: close", "Content-type: application/json"),
    "Perl LWP": get("GET /health HTTP/1.1", "TE: deflate,gzip;q=0.3", "Connection: TE, close", LOCAL,
                    "User-Agent: libwww-perl/6.68", has=b"ok"),
    # --- JavaScript ---
    "Node fetch (undici)": post(V1, *UNDICI, "content-type: application/json"),
    "Node fetch, a string": post(V1, *UNDICI, "content-type: text/plain;charset=UTF-8"),
    "Node fetch, a stream": post(V1, *UNDICI, "content-type: application/json",
                                 "transfer-encoding: chunked", body=chunked(*[b"%c" % c for c in ASK])),
    "Node http.request without length": post(V1, JSON, LOCAL, "Connection: keep-alive", CHUNKS,
                                             body=chunked(ASK)),
    "axios": post(V1, "Accept: application/json, text/plain, */*", JSON, "User-Agent: axios/1.7.2",
                  f"Content-Length: {len(ASK)}", "Accept-Encoding: gzip, compress, deflate, br", LOCAL,
                  "Connection: keep-alive"),
    "axios.delete with data": post("DELETE /v1/sessions/none HTTP/1.1",
                                   "Accept: application/json, text/plain, */*", JSON,
                                   "User-Agent: axios/1.7.2", LOCAL, "Connection: close", status=404,
                                   has=b"not_found"),
    "openai-node": post(V1, *STAINLESS, "accept: application/json", "content-type: application/json",
                        "user-agent: OpenAI/JS 4.52.0", LOCAL, "connection: keep-alive"),
    "Bun": post(V1, JSON, "Connection: keep-alive", "User-Agent: Bun/1.1.13", "Accept: */*", LOCAL,
                "Accept-Encoding: gzip, deflate, br"),
    # --- .NET ---
    ".NET HttpClient, JsonContent": post(V1, LOCAL, CHUNKS,
                                         "Content-Type: application/json; charset=utf-8",
                                         body=chunked(ASK)),
    ".NET HttpClient, ExpectContinue": Client(
        head(V1, LOCAL, "Expect: 100-continue", CHUNKS, "Content-Type: application/json; charset=utf-8"),
        chunked(ASK), has=b'"answer"'),
    # --- Python ---
    "http.client": post(V1, LOCAL, "Accept-Encoding: identity", f"Content-Length: {len(ASK)}", JSON),
    "urllib.request": post(V1, "Accept-Encoding: identity", FORM, f"Content-Length: {len(ASK)}", LOCAL,
                           "User-Agent: Python-urllib/3.11", "Connection: close"),
    "requests": post(V1, LOCAL, *REQUESTS, f"Content-Length: {len(ASK)}", JSON),
    "requests, a generator": post(V1, LOCAL, *REQUESTS, CHUNKS, body=chunked(ASK[:9], ASK[9:])),
    "requests.get(json=)": post("GET /health HTTP/1.1", LOCAL, *REQUESTS, JSON, has=b"ok"),
    "httpx": post(V1, LOCAL, "Accept: */*", "Accept-Encoding: gzip, deflate", "Connection: keep-alive",
                  "User-Agent: python-httpx/0.27.0", f"Content-Length: {len(ASK)}", JSON),
    "aiohttp": post(V1, LOCAL, "Accept: */*", "Accept-Encoding: gzip, deflate",
                    "User-Agent: Python/3.11 aiohttp/3.9.5", f"Content-Length: {len(ASK)}", JSON),
    # --- browsers ---
    "Chrome opens the page": get("GET / HTTP/1.1", LOCAL, "Connection: keep-alive", *CHROME,
                                 "Upgrade-Insecure-Requests: 1", "Sec-Fetch-Site: none",
                                 "Sec-Fetch-Mode: navigate", "Sec-Fetch-User: ?1",
                                 "Sec-Fetch-Dest: document", has=b"<html"),
    "Chrome follows a link to the page": get("GET / HTTP/1.1", LOCAL, *CHROME,
                                             "Referer: https://wiki.example/",
                                             "Sec-Fetch-Site: cross-site", has=b"<html"),
    "Chrome with cookies of all of localhost": get("GET /page.js HTTP/1.1", LOCAL, *CHROME, COOKIES,
                                                   "Sec-Fetch-Site: same-origin"),
    "Chrome asks from the page": post(V1, LOCAL, "Connection: keep-alive", *CHROME, JSON,
                                      "Origin: http://localhost:8017", "Sec-Fetch-Site: same-origin",
                                      "Sec-Fetch-Mode: cors", "Referer: http://localhost:8017/",
                                      COOKIES),
    "Firefox behind TLS": post(V1, "Host: localhost", "Origin: https://localhost", JSON,
                               "Sec-Fetch-Site: same-origin", "User-Agent: Mozilla/5.0 (X11; Linux "
                               "x86_64; rv:127.0) Gecko/20100101 Firefox/127.0", *FORWARDED),
    "Firefox behind nginx, which sends its own Host": post(
        V0, H, "Connection: close", "Origin: https://lectern.example", JSON,
        "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "User-Agent: Mozilla/5.0 (X11; Linux "
        "x86_64; rv:127.0) Gecko/20100101 Firefox/127.0"),
    "Chrome tries a WebSocket": get("GET / HTTP/1.1", LOCAL, "Connection: Upgrade", "Upgrade: websocket",
                                    "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9",
                                    "Origin: http://localhost:8017", has=b"<html"),
    # --- proxies and probes ---
    "nginx, as it is": post(V0, H, "Connection: close", f"Content-Length: {len(ASK)}",
                            "User-Agent: curl/7.88.1", "Accept: */*", JSON),
    "nginx, proxy_http_version 1.1": post(V1, LOCAL, "X-Forwarded-Host: lectern.example", *FORWARDED,
                                          "Connection: upgrade", JSON),
    "haproxy": post(V1, "host: localhost:8017", "content-type: application/json",
                    f"content-length: {len(ASK)}", "x-forwarded-for: 10.0.0.7"),
    "haproxy, option httpchk": get("OPTIONS / HTTP/1.0", status=204),
    "Caddy": post(V1, LOCAL, "User-Agent: curl/8.5.0", "Accept-Encoding: gzip", *FORWARDED,
                  "X-Forwarded-Host: lectern.example", "Via: 1.1 Caddy", JSON),
    "Apache mod_proxy": post(V1, LOCAL, JSON, *FORWARDED, "X-Forwarded-Server: www", "Via: 1.1 www",
                             "Forwarded: for=10.0.0.7;proto=https;host=lectern.example",
                             "Connection: Keep-Alive"),
    "Envoy": post(V1, LOCAL, "x-request-id: 3c1d3c5e-86b1-4ed1-9b1c-0c6b8c3d0a11", JSON,
                  "x-envoy-expected-rq-timeout-ms: 15000", "x-forwarded-proto: http"),
    "Docker Desktop": get("GET /health HTTP/1.1", "Host: host.docker.internal:8017", *CURL, has=b"ok"),
    "the address of a container": get("GET /health HTTP/1.1", "Host: 172.17.0.2:8017", *CURL, has=b"ok"),
    "IPv6": get("GET /health HTTP/1.1", "Host: [::1]:8017", *CURL, has=b"ok"),
    "a name with its dot": get("GET /health HTTP/1.1", "Host: LOCALHOST.:8017", *CURL, has=b"ok"),
    "kubelet": get("GET /ready HTTP/1.1", "Host: 10.1.2.3:8017", "User-Agent: kube-probe/1.29",
                   "Accept: */*", "Connection: close", has=b"ready"),
    "Prometheus": get("GET /metrics HTTP/1.1", LOCAL, "User-Agent: Prometheus/2.52.0",
                      "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1",
                      "Accept-Encoding: gzip", "X-Prometheus-Scrape-Timeout-Seconds: 10",
                      has=b"lectern_"),
    # --- what RFC 9112 lets a client do ---
    "an empty line before the request": Client(b"\r\n\r\n" + head("GET /health HTTP/1.1", LOCAL),
                                               has=b"ok"),
    "an empty line behind a body": Client(head(V1, LOCAL, JSON, f"Content-Length: {len(ASK)}") + ASK +
                                          b"\r\n" + head("GET /health HTTP/1.1", LOCAL), count=2,
                                          has=b"ok"),
    "requests one after the other": Client(*[head(V1, LOCAL, JSON, f"Content-Length: {len(ASK)}") + ASK,
                                             head("GET /health HTTP/1.1", LOCAL)], count=2, has=b"ok"),
    "pipelined requests": Client((head(V1, LOCAL, CHUNKS) + chunked(ASK, extension=b";a=b")) * 2 +
                                 head("GET /health HTTP/1.1", LOCAL), count=3, has=b"ok"),
    "pipelined, then half-closed": Client(head("GET /health HTTP/1.1", LOCAL) * 3, count=3,
                                          half_closes=True, has=b"ok"),
    "a refused request, then another": Client(
        head("GET /v1/none HTTP/1.1", LOCAL) * 2, count=2, status=404, has=b"not_found"),
    "HTTP/1.2": get("GET /health HTTP/1.2", LOCAL, has=b"ok"),
}
