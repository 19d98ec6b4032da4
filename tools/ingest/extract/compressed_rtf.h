// Texts of Outlook's messages in compressed RTF (MS-OXRTFCP).
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_COMPRESSED_RTF_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_COMPRESSED_RTF_H_

#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::tools {

// The RTF; as much of it as there is where the bytes are damaged, so that it may be empty. Linear
// time; at most nine bytes for each byte.
std::string DecompressRtf(std::string_view bytes);

// The RTF of the text of a message of Outlook (.msg), empty: it has none. Errors of CompoundFile.
api::Result<std::string> ReadMsgRtf(std::string_view bytes);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_COMPRESSED_RTF_H_
