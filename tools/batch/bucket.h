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

// The key of a document's bundle: "PREFIX/DOCUMENT-HASH.lectern". The id names the text and the
// model; the hash (16 hex digits) the document's name and options, which the bundle also holds. So
// two runs over one row of the table mean the same object, and two rows never do.
std::string BundleKey(const BucketPlace& place, std::string_view document, std::string_view name,
                      std::string_view options);

// `path` as it stands in a URL: everything but letters, digits, "-._~/" becomes %XX. S3 signs this
// very text.
std::string UrlPath(std::string_view path);

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_BUCKET_H_
