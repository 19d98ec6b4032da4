#include "tools/batch/bucket.h"

#include <algorithm>

#include "engine/model/formats/sha256.h"
#include "tools/batch/file_hash.h"

namespace lectern::batch {
namespace {

constexpr std::string_view kScheme = "s3://";

bool IsSmallOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool IsBucketName(std::string_view name) {
  const auto fits = [](char c) { return IsSmallOrDigit(c) || c == '.' || c == '-'; };
  return name.size() >= 3 && name.size() <= 63 && std::all_of(name.begin(), name.end(), fits) &&
         IsSmallOrDigit(name.front()) && IsSmallOrDigit(name.back());
}

// HTTP clients and servers rewrite paths with such parts, and a signature would no longer fit.
bool IsPrefix(std::string_view prefix) {
  for (size_t begin = 0; begin <= prefix.size();) {
    const size_t end = std::min(prefix.find('/', begin), prefix.size());
    const std::string_view part = prefix.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return std::none_of(prefix.begin(), prefix.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

}  // namespace

std::string BucketPlace::Text() const {
  return std::string(kScheme) + bucket + (prefix.empty() ? "" : "/" + prefix);
}

api::Result<BucketPlace> ParseBucket(std::string_view text) {
  BucketPlace place;
  std::string_view rest = text;
  if (rest.starts_with(kScheme)) {
    rest.remove_prefix(kScheme.size());
    const size_t slash = std::min(rest.find('/'), rest.size());
    place.bucket = rest.substr(0, slash);
    rest.remove_prefix(std::min(rest.size(), slash + 1));
    if (rest.ends_with('/')) rest.remove_suffix(1);
    place.prefix = rest;
  }
  if (!IsBucketName(place.bucket) || (!place.prefix.empty() && !IsPrefix(place.prefix))) {
    return api::Error{
        LECTERN_INVALID_ARGUMENT,
        "\"" + std::string(text) + "\" is no bucket: it should look like s3://bucket/prefix",
        "bucket"};
  }
  return place;
}

std::string BundleKey(const BucketPlace& place, std::string_view document, std::string_view name,
                      std::string_view options, std::string_view sha256) {
  Sha256 hash;
  hash.UpdateText(name);
  hash.UpdateText(options);
  const std::string hex = HexOf(hash.Finish()).substr(0, 16);
  return (place.prefix.empty() ? "" : place.prefix + "/") + std::string(document) + "/" + hex +
         "-" + std::string(sha256.substr(0, 32)) + ".lectern";
}

std::string UrlPath(std::string_view path) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string url;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_letter = (c >= 'A' && c <= 'Z') || IsSmallOrDigit(c);
    if (is_letter || std::string_view("-._~/").find(c) != std::string_view::npos) {
      url += c;
    } else {
      url.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return url;
}

}  // namespace lectern::batch
