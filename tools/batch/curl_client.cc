// The one file that uses libcurl.
#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <mutex>
#include <utility>

#include "tools/batch/http_client.h"

namespace lectern::batch {
namespace {

// A connection attempt ends after kConnectSeconds, a transfer after kStallSeconds without a byte.
constexpr long kConnectSeconds = 10, kStallSeconds = 60;
constexpr size_t kMostBody = 64 << 10;

struct FreeHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, FreeHeaders>;

// One request while it runs: the state that libcurl's callbacks share.
struct Transfer {
  CURL* curl;
  const HttpRequest& request;
  const StopCheck& stop;
  HttpResponse response;
  std::ifstream upload;
  std::ofstream download;
  uint64_t sent = 0;
  bool file_failed = false;
};

size_t ReadUpload(char* to, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const uint64_t left = transfer.request.bytes - transfer.sent;
  const uint64_t wanted = std::min<uint64_t>(left, size * count);
  transfer.upload.read(to, static_cast<std::streamsize>(wanted));
  const auto got = static_cast<uint64_t>(transfer.upload.gcount());
  if (got < wanted) {
    transfer.file_failed = true;
    return CURL_READFUNC_ABORT;
  }
  transfer.sent += got;
  return got;
}

// libcurl asks for this where a kept connection turns out to be closed.
int SeekUpload(void* user, curl_off_t offset, int origin) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (origin != SEEK_SET) return CURL_SEEKFUNC_FAIL;
  transfer.sent = static_cast<uint64_t>(offset);
  transfer.upload.clear();
  transfer.upload.seekg(static_cast<std::streamoff>(transfer.request.offset + transfer.sent));
  return transfer.upload ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

size_t TakeBody(char* from, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  long status = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
  if (!transfer.request.download.empty() && status == 200) {
    transfer.download.write(from, static_cast<std::streamsize>(bytes));
    if (!transfer.download) transfer.file_failed = true;
    return transfer.file_failed ? 0 : bytes;
  }
  std::string& body = transfer.response.body;
  body.append(from, std::min(bytes, kMostBody - std::min(kMostBody, body.size())));
  return bytes;
}

size_t TakeHeader(char* from, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string_view line(from, size * count);
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size * count;  // the status line, or the end
  std::string name(line.substr(0, colon));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  line.remove_prefix(colon + 1);
  const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  const size_t end = line.find_last_not_of(" \t\r\n");
  const bool is_empty = end == std::string_view::npos || end < begin;
  transfer.response.headers[name] =
      is_empty ? "" : std::string(line.substr(begin, end + 1 - begin));
  return size * count;
}

int Watch(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return IsStopped(static_cast<Transfer*>(user)->stop) ? 1 : 0;
}

class CurlClient final : public HttpClient {
 public:
  CurlClient(CURL* curl, const S3Keys& keys) : curl_(curl), keys_(keys) {}
  ~CurlClient() override { curl_easy_cleanup(curl_); }

  api::Result<HttpResponse> Send(const HttpRequest& request, const StopCheck& stop) override {
    const std::lock_guard lock(mutex_);
    Transfer transfer = {curl_, request, stop, {}, {}, {}, 0, false};
    if (!request.upload.empty()) {
      transfer.upload.open(request.upload, std::ios::binary);
      transfer.upload.seekg(static_cast<std::streamoff>(request.offset));
      if (!transfer.upload) return FileError(request.upload, "cannot be read");
    }
    if (!request.download.empty()) {
      transfer.download.open(request.download, std::ios::binary | std::ios::trunc);
      if (!transfer.download) return FileError(request.download, "cannot be written");
    }
    const CURLcode code = Perform(transfer);
    if (transfer.download.is_open()) transfer.download.close();
    if (transfer.file_failed || transfer.download.fail()) {
      return FileError(request.upload + request.download, "reading or writing it failed");
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) return api::Error{LECTERN_CANCELLED, "cancelled", ""};
    if (code != CURLE_OK) {
      return api::Error{
          IsFinal(code) ? LECTERN_INVALID_ARGUMENT : LECTERN_IO_ERROR,
          std::string("S3 server: ") + (message_[0] != 0 ? message_ : curl_easy_strerror(code)),
          "endpoint"};
    }
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &transfer.response.status);
    return std::move(transfer.response);
  }

 private:
  static api::Error FileError(const std::string& path, const char* why) {
    return {LECTERN_IO_ERROR, "\"" + path + "\": " + why, "file"};
  }

  // Whether another try would fail in the same way.
  static bool IsFinal(CURLcode code) {
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
  }

  CURLcode Perform(Transfer& transfer) {
    const HttpRequest& request = transfer.request;
    curl_easy_reset(curl_);  // keeps the connections
    message_[0] = 0;
    curl_easy_setopt(curl_, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(curl_, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
    curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, message_);
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, TakeBody);
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(curl_, CURLOPT_HEADERFUNCTION, TakeHeader);
    curl_easy_setopt(curl_, CURLOPT_HEADERDATA, &transfer);
    curl_easy_setopt(curl_, CURLOPT_XFERINFOFUNCTION, Watch);
    curl_easy_setopt(curl_, CURLOPT_XFERINFODATA, &transfer);
    curl_easy_setopt(curl_, CURLOPT_NOPROGRESS, 0L);
    SetMethod(transfer);
    Headers headers;
    const auto add = [&headers](const std::string& line) {
      headers.reset(curl_slist_append(headers.release(), line.c_str()));
    };
    for (const std::string& line : request.headers) add(line);
    if (!keys_.key.empty()) {
      curl_easy_setopt(curl_, CURLOPT_AWS_SIGV4, ("aws:amz:" + keys_.region + ":s3").c_str());
      curl_easy_setopt(curl_, CURLOPT_USERNAME, keys_.key.c_str());
      curl_easy_setopt(curl_, CURLOPT_PASSWORD, keys_.secret.c_str());
      if (!keys_.token.empty()) add("x-amz-security-token: " + keys_.token);
    }
    curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers.get());
    // A server that wants to refuse a large body can say so before it is sent.
    curl_easy_setopt(curl_, CURLOPT_EXPECT_100_TIMEOUT_MS, 1000L);
    return curl_easy_perform(curl_);
  }

  void SetMethod(Transfer& transfer) {
    const HttpRequest& request = transfer.request;
    if (request.method == "HEAD") {
      curl_easy_setopt(curl_, CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT") {
      curl_easy_setopt(curl_, CURLOPT_UPLOAD, 1L);
      curl_easy_setopt(curl_, CURLOPT_READFUNCTION, ReadUpload);
      curl_easy_setopt(curl_, CURLOPT_READDATA, &transfer);
      curl_easy_setopt(curl_, CURLOPT_SEEKFUNCTION, SeekUpload);
      curl_easy_setopt(curl_, CURLOPT_SEEKDATA, &transfer);
      curl_easy_setopt(curl_, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.bytes));
    } else if (request.method == "POST") {
      curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, request.body.c_str());
      curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(request.body.size()));
    } else if (request.method != "GET") {
      curl_easy_setopt(curl_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
  }

  std::mutex mutex_;  // one request at a time
  CURL* const curl_;
  const S3Keys keys_;
  char message_[CURL_ERROR_SIZE] = {};
};

}  // namespace

api::Result<std::unique_ptr<HttpClient>> MakeCurlClient(const S3Keys& keys) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  CURL* const curl = started == CURLE_OK ? curl_easy_init() : nullptr;
  if (!curl) return api::Error{LECTERN_INTERNAL, "libcurl cannot be started", ""};
  return std::unique_ptr<HttpClient>(std::make_unique<CurlClient>(curl, keys));
}

}  // namespace lectern::batch
