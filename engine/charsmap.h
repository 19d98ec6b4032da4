// The `precompiled_charsmap` of a SentencePiece normaliser, checked before the library trusts it:
// version 0.1.97 follows whatever the table says and reads outside it.
//
//   u32 little-endian t | t bytes: a Darts double array (u32 units) | NUL-terminated replacements
//
// The double array maps UTF-8 keys to offsets of replacements. Source: normalizer.cc and
// third_party/darts_clone/darts.h of SentencePiece.
#ifndef LECTERN_ENGINE_CHARSMAP_H_
#define LECTERN_ENGINE_CHARSMAP_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lectern {

inline constexpr size_t kMaxReplacement = 100;  // bytes that one key may become

// What is wrong with `charsmap`, or nothing. When it returns nothing then, on any valid UTF-8 text,
// the library's search stays inside the array, finds at most 32 keys at a place (the size of its
// result buffer), every key ends between characters, and every replacement is valid UTF-8 of at
// most kMaxReplacement bytes.
std::optional<std::string> FindCharsmapFault(std::string_view charsmap);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CHARSMAP_H_
