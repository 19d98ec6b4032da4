// Decompresses a file that holds one other file ("notes.txt.gz"), for the program lectern-extract.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_UNPACK_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_UNPACK_H_

#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::tools {

// Returns the bytes in a file of gzip, bzip2, xz, lzma, lzip, zstd, lz4 or compress; of a file that
// is compressed twice, those inside both. Errors, whose messages begin with a verb:
// INVALID_ARGUMENT for damaged and cut files, for tar archives and where this build of libarchive
// lacks the method; LIMIT_EXCEEDED for more than 128 MiB.
api::Result<std::string> Unpack(std::string_view bytes);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_UNPACK_H_
