#include "tools/batch/s3_store.h"

#include <algorithm>
#include <utility>

#include "tools/batch/bucket.h"
#include "tools/batch/file_hash.h"
#include "tools/batch/worker_name.h"
#include "tools/quantities.h"

namespace lectern::batch {
namespace {

constexpr char kShaHeader[] = "x-amz-meta-sha256";
constexpr uint64_t kMostParts = 10000;

std::string HeaderOf(const HttpResponse& response, const char* name) {
  const auto found = response.headers.find(name);
  return found == response.headers.end() ? "" : found->second;
}

// The hash of the body, which is part of the signature: the server refuses other bytes.
std::string BodyHash(const std::string& sha256) { return "x-amz-content-sha256: " + sha256; }
std::string NoBody() { return BodyHash(HashText("")); }

}  // namespace

S3Store::S3Store(std::unique_ptr<HttpClient> client, const S3Place& place, uint64_t part_bytes,
                 const Backoff::Limits& retries)
    : client_(std::move(client)), place_(place), part_bytes_(part_bytes), retries_(retries) {}

std::string S3Store::Url(const std::string& key) const {
  return place_.endpoint + "/" + place_.bucket + "/" + UrlPath(key);
}

api::Error S3Store::Refused(const std::string& what, const std::string& key,
                            const HttpResponse& response) const {
  const std::string code = XmlText(response.body, "Code");
  const std::string text = XmlText(response.body, "Message");
  const std::string why = "status " + std::to_string(response.status) +
                          (code.empty() ? "" : " " + code) + (text.empty() ? "" : ": " + text);
  const std::string object = "s3://" + place_.bucket + "/" + key;
  if (response.status == 404 && code == "NoSuchBucket") {
    return {LECTERN_NOT_FOUND, "there is no bucket \"" + place_.bucket + "\"", "bucket"};
  }
  if (response.status == 401 || response.status == 403) {
    return {LECTERN_READ_ONLY, what + " " + object + ": the keys do not allow it (" + why + ")",
            "bucket"};
  }
  if (response.status == 301 || response.status == 307) {
    return {LECTERN_INVALID_ARGUMENT,
            what + " " + object + ": the bucket is at another endpoint or in another region (" +
                why + ")",
            "endpoint"};
  }
  return {LECTERN_IO_ERROR, what + " " + object + ": " + why, "bucket"};
}

api::Result<HttpResponse> S3Store::Send(const HttpRequest& request, const StopCheck& stop) {
  Backoff backoff(retries_);
  for (;;) {
    auto response = client_->Send(request, stop);
    const bool is_final = response.ok() ? !IsRetryableStatus(response->status)
                                        : response.error().code != LECTERN_IO_ERROR ||
                                              response.error().param == "file";
    if (is_final || !backoff.Wait(stop)) {
      if (!is_final && IsStopped(stop)) return api::Error{LECTERN_CANCELLED, "cancelled", ""};
      return response;
    }
  }
}

api::Result<api::Done> S3Store::Put(const std::string& key, const std::string& path,
                                    const ObjectFacts& facts, const StopCheck& stop) {
  return facts.bytes > part_bytes_ ? PutParts(key, path, facts, stop)
                                   : PutWhole(key, path, facts, stop);
}

api::Result<api::Done> S3Store::PutWhole(const std::string& key, const std::string& path,
                                         const ObjectFacts& facts, const StopCheck& stop) {
  const HttpRequest request = {
      .method = "PUT",
      .url = Url(key),
      .headers = {"content-type: application/octet-stream", BodyHash(facts.sha256),
                  std::string(kShaHeader) + ": " + facts.sha256},
      .upload = path,
      .bytes = facts.bytes};
  auto response = Send(request, stop);
  if (!response.ok()) return response.error();
  if (response->status != 200) return Refused("storing", key, *response);
  return api::Done();
}

api::Result<api::Done> S3Store::PutParts(const std::string& key, const std::string& path,
                                         const ObjectFacts& facts, const StopCheck& stop) {
  const std::string url = Url(key);
  HttpRequest begin = {.method = "POST",
                       .url = url + "?uploads=",
                       .headers = {"content-type: application/octet-stream", NoBody(),
                                   std::string(kShaHeader) + ": " + facts.sha256}};
  auto begun = Send(begin, stop);
  if (!begun.ok()) return begun.error();
  const std::string upload = XmlText(begun->body, "UploadId");
  if (begun->status != 200 || upload.empty()) return Refused("storing", key, *begun);
  const std::string id = "uploadId=" + UrlPath(upload);
  auto parts = SendParts(url + "?" + id, path, facts, stop);
  api::Error error;
  if (parts.ok()) {
    const HttpRequest end = {
        .method = "POST",
        .url = url + "?" + id,
        .headers = {"content-type: application/xml", BodyHash(HashText(*parts))},
        .body = *parts};
    auto ended = Send(end, stop);
    // An answer of 200 may hold an error, because the server answers before it has joined the
    // parts.
    const bool has_failed = ended.ok() && ended->body.find("<Error>") != std::string::npos;
    if (ended.ok() && ended->status == 200 && !has_failed) return api::Done();
    error = ended.ok() ? Refused("storing", key, *ended) : ended.error();
  } else {
    error = parts.error();
  }
  // The parts would be paid for until somebody finds them. One try: the error counts more.
  const HttpRequest abort = {.method = "DELETE", .url = url + "?" + id, .headers = {NoBody()}};
  (void)client_->Send(abort, {}).ok();
  return error;
}

api::Result<std::string> S3Store::SendParts(const std::string& url, const std::string& path,
                                            const ObjectFacts& facts, const StopCheck& stop) {
  const uint64_t part_bytes = std::max(part_bytes_, facts.bytes / kMostParts + 1);
  std::string xml = "<CompleteMultipartUpload>";
  uint64_t number = 1;
  for (uint64_t offset = 0; offset < facts.bytes; offset += part_bytes, ++number) {
    const uint64_t bytes = std::min(part_bytes, facts.bytes - offset);
    auto hash = HashFile(path, offset, bytes);
    if (!hash.ok()) return hash.error();
    const size_t query = url.find('?');
    const std::string count = std::to_string(number);
    const HttpRequest request = {
        .method = "PUT",
        .url = url.substr(0, query) + "?partNumber=" + count + "&" + url.substr(query + 1),
        .headers = {BodyHash(hash->sha256)},
        .upload = path,
        .offset = offset,
        .bytes = bytes};
    auto response = Send(request, stop);
    if (!response.ok()) return response.error();
    const std::string tag = HeaderOf(*response, "etag");
    if (response->status != 200 || tag.empty())
      return Refused("storing a part of", path, *response);
    xml += "<Part><PartNumber>" + count + "</PartNumber><ETag>" + tag + "</ETag></Part>";
  }
  return xml + "</CompleteMultipartUpload>";
}

api::Result<std::optional<ObjectFacts>> S3Store::Head(const std::string& key,
                                                      const StopCheck& stop) {
  auto response = Send({.method = "HEAD", .url = Url(key), .headers = {NoBody()}}, stop);
  if (!response.ok()) return response.error();
  if (response->status == 404) return std::optional<ObjectFacts>();
  const auto bytes = tools::ParseNumber<uint64_t>(HeaderOf(*response, "content-length"));
  if (response->status != 200 || !bytes) return Refused("reading", key, *response);
  const std::string sha256 = HeaderOf(*response, kShaHeader);
  return std::optional<ObjectFacts>({*bytes, IsSha256(sha256) ? sha256 : ""});
}

api::Result<api::Done> S3Store::Get(const std::string& key, const std::string& path,
                                    const StopCheck& stop) {
  const HttpRequest request = {
      .method = "GET", .url = Url(key), .headers = {NoBody()}, .download = path};
  auto response = Send(request, stop);
  if (!response.ok()) return response.error();
  if (response->status == 200) return api::Done();
  api::Error error = Refused("reading", key, *response);
  if (response->status == 404 && error.code != LECTERN_NOT_FOUND) {
    error = {LECTERN_NOT_FOUND, "there is no object s3://" + place_.bucket + "/" + key, "key"};
  }
  return error;
}

api::Result<api::Done> S3Store::Remove(const std::string& key, const StopCheck& stop) {
  auto response = Send({.method = "DELETE", .url = Url(key), .headers = {NoBody()}}, stop);
  if (!response.ok()) return response.error();
  const bool is_gone =
      response->status == 204 || response->status == 200 ||
      (response->status == 404 && XmlText(response->body, "Code") != "NoSuchBucket");
  if (!is_gone) return Refused("removing", key, *response);
  return api::Done();
}

api::Result<S3Keys> KeysOfEnvironment() {
  S3Keys keys = {.key = Variable("AWS_ACCESS_KEY_ID"),
                 .secret = Variable("AWS_SECRET_ACCESS_KEY"),
                 .token = Variable("AWS_SESSION_TOKEN"),
                 .region = Variable("AWS_REGION")};
  if (keys.region.empty()) keys.region = Variable("AWS_DEFAULT_REGION");
  if (keys.region.empty()) keys.region = "us-east-1";
  if (keys.key.empty() != keys.secret.empty()) {
    return api::Error{LECTERN_INVALID_ARGUMENT,
                      "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together: one is not set",
                      keys.key.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY"};
  }
  return keys;
}

api::Result<std::string> EndpointOf(const std::string& given, const std::string& region) {
  std::string url = given;
  if (url.empty()) url = Variable("AWS_ENDPOINT_URL_S3");
  if (url.empty()) url = Variable("AWS_ENDPOINT_URL");
  if (url.empty()) url = "https://s3." + region + ".amazonaws.com";
  if (url.ends_with('/')) url.pop_back();
  const size_t begin = url.find("://");
  const std::string scheme = url.substr(0, std::min(begin, url.size()));
  const std::string host = begin == std::string::npos ? "" : url.substr(begin + 3);
  if ((scheme != "http" && scheme != "https") || host.empty() ||
      host.find_first_of("/@?# ") != std::string::npos) {
    // Without the text: a user and password may stand in it.
    return api::Error{LECTERN_INVALID_ARGUMENT,
                      "the endpoint is no URL like https://host:port, without user and path",
                      "endpoint"};
  }
  return url;
}

std::string XmlText(std::string_view xml, std::string_view name) {
  const std::string open = "<" + std::string(name) + ">", close = "</" + std::string(name) + ">";
  const size_t begin = xml.find(open);
  const size_t end = xml.find(close, begin == std::string_view::npos ? xml.size() : begin);
  if (begin == std::string_view::npos || end == std::string_view::npos) return "";
  std::string text(xml.substr(begin + open.size(), end - begin - open.size()));
  // "&amp;" last: it may stand for the begin of another.
  for (const auto& [entity, character] : {std::pair<std::string_view, const char*>{"&lt;", "<"},
                                          {"&gt;", ">"},
                                          {"&quot;", "\""},
                                          {"&#34;", "\""},
                                          {"&apos;", "'"},
                                          {"&amp;", "&"}}) {
    for (size_t at = 0; (at = text.find(entity, at)) != std::string::npos; ++at) {
      text.replace(at, entity.size(), character);
    }
  }
  return text;
}

}  // namespace lectern::batch
