#include "tools/ingest/extract/docx_symbols.h"

#include <charconv>
#include <cstdint>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

struct Symbol {
  uint8_t code;
  std::string_view text;
};
// Adobe's Symbol encoding (unicode.org, VENDORS/ADOBE/symbol.txt): letters, and the signs of
// formulas.
constexpr Symbol kSymbol[] = {
    {0x41, "Α"}, {0x42, "Β"}, {0x43, "Χ"}, {0x44, "Δ"}, {0x45, "Ε"}, {0x46, "Φ"}, {0x47, "Γ"},
    {0x48, "Η"}, {0x49, "Ι"}, {0x4A, "ϑ"}, {0x4B, "Κ"}, {0x4C, "Λ"}, {0x4D, "Μ"}, {0x4E, "Ν"},
    {0x4F, "Ο"}, {0x50, "Π"}, {0x51, "Θ"}, {0x52, "Ρ"}, {0x53, "Σ"}, {0x54, "Τ"}, {0x55, "Υ"},
    {0x56, "ς"}, {0x57, "Ω"}, {0x58, "Ξ"}, {0x59, "Ψ"}, {0x5A, "Ζ"}, {0x61, "α"}, {0x62, "β"},
    {0x63, "χ"}, {0x64, "δ"}, {0x65, "ε"}, {0x66, "φ"}, {0x67, "γ"}, {0x68, "η"}, {0x69, "ι"},
    {0x6A, "ϕ"}, {0x6B, "κ"}, {0x6C, "λ"}, {0x6D, "μ"}, {0x6E, "ν"}, {0x6F, "ο"}, {0x70, "π"},
    {0x71, "θ"}, {0x72, "ρ"}, {0x73, "σ"}, {0x74, "τ"}, {0x75, "υ"}, {0x76, "ϖ"}, {0x77, "ω"},
    {0x78, "ξ"}, {0x79, "ψ"}, {0x7A, "ζ"}, {0xA2, "′"}, {0xA3, "≤"}, {0xA5, "∞"}, {0xAB, "↔"},
    {0xAC, "←"}, {0xAD, "↑"}, {0xAE, "→"}, {0xAF, "↓"}, {0xB0, "°"}, {0xB1, "±"}, {0xB2, "″"},
    {0xB3, "≥"}, {0xB4, "×"}, {0xB5, "∝"}, {0xB6, "∂"}, {0xB7, "•"}, {0xB8, "÷"}, {0xB9, "≠"},
    {0xBA, "≡"}, {0xBB, "≈"}, {0xC5, "⊕"}, {0xC6, "∅"}, {0xC7, "∩"}, {0xC8, "∪"}, {0xCC, "⊂"},
    {0xCD, "⊆"}, {0xCE, "∈"}, {0xCF, "∉"}, {0xD1, "∇"}, {0xD2, "®"}, {0xD3, "©"}, {0xD4, "™"},
    {0xD5, "∏"}, {0xD6, "√"}, {0xD7, "⋅"}, {0xD8, "¬"}, {0xD9, "∧"}, {0xDA, "∨"}, {0xDB, "⇔"},
    {0xDC, "⇐"}, {0xDE, "⇒"}, {0xE5, "∑"}, {0xF2, "∫"}};
// Wingdings: those that stand in texts and forms (unicode.org, L2/11-052).
constexpr Symbol kWingdings[] = {
    {0x6C, "●"}, {0x6E, "■"}, {0x6F, "□"}, {0x71, "❑"}, {0x75, "◆"}, {0x76, "❖"}, {0x78, "☒"},
    {0xA1, "○"}, {0xA7, "▪"}, {0xA8, "☐"}, {0xD8, "➢"}, {0xDF, "←"}, {0xE0, "→"}, {0xE1, "↑"},
    {0xE2, "↓"}, {0xE8, "➔"}, {0xF0, "⇨"}, {0xFB, "✗"}, {0xFC, "✓"}, {0xFD, "☒"}, {0xFE, "☑"}};
// Wingdings 2, alike.
constexpr Symbol kWingdings2[] = {{0x4F, "✗"}, {0x50, "✓"}, {0x51, "☒"}, {0x52, "☑"},
                                  {0x53, "☒"}, {0x54, "☒"}, {0xA3, "☐"}};

template <size_t kSize>
std::string_view FindSymbol(const Symbol (&symbols)[kSize], uint32_t code) {
  for (const Symbol& symbol : symbols) {
    if (symbol.code == code) return symbol.text;
  }
  return "";
}

}  // namespace

std::string_view SymbolText(std::string_view font, std::string_view code) {
  constexpr uint32_t kPrivate = 0xF000;  // where fonts of symbols put their 256 characters
  uint32_t number = 0;
  const auto read = std::from_chars(code.data(), code.data() + code.size(), number, 16);
  if (read.ec != std::errc()) return "";
  if (number >= kPrivate && number < kPrivate + 0x100) number -= kPrivate;
  const std::string name = Lower(font);
  if (name == "symbol") return FindSymbol(kSymbol, number);
  if (name == "wingdings") return FindSymbol(kWingdings, number);
  return name == "wingdings 2" ? FindSymbol(kWingdings2, number) : "";
}

}  // namespace lectern::tools
