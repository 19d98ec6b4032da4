// Names the objects of a corpus: where its bucket is, and under which key each document's bundle
// lies. Pure functions: any thread.
#ifndef LECTERN_TOOLS_BATCH_BUCKET_H_
#define LECTERN_TOOLS_BATCH_BUCKET_H_

#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::batch {

// A corpus lives below a prefix of a bucket.
struct BucketPlace {
  std::string bucket;
  std::string prefix;  // no slash at either end; empty: the whole bucket

  // "s3://bucket/prefix": equal places have equal texts, by which the database knows a corpus.
  std::string Text() const;
};

// Parses "s3://BUCKET[/PREFIX]". INVALID_ARGUMENT (param "bucket"): another scheme, a bucket name
// that S3 does not allow (3 to 63 small letters, digits, dots and hyphens), or a prefix with an
// empty part, a part "." or "..", or control characters.
api::Result<BucketPlace> ParseBucket(std::string_view text);

// The key of a document's bundle: "PREFIX/DOCUMENT/HASH-SHA256.lectern". The id names the text and
// the model; the hash (16 hex digits) the document's name and options; the last part (32 digits of
// `sha256`) the bundle's bytes, which hold the time at which they were made. So an object is never
// replaced by other bytes, whatever a late worker does, and no row of the table can touch the
// object of another.
std::string BundleKey(const BucketPlace& place, std::string_view document, std::string_view name,
                      std::string_view options, std::string_view sha256);

// `path` as it stands in a URL: everything but letters, digits, "-._~/" becomes %XX. S3 signs this
// very text.
std::string UrlPath(std::string_view path);

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_BUCKET_H_
