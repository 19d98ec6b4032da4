// Prints everything that the tools print: results on stdout, errors and notes on stderr, so that a
// pipe gets results alone. Text from documents and models is made harmless for terminals. A failed
// write to stderr is ignored.
#ifndef LECTERN_TOOLS_TERMINAL_H_
#define LECTERN_TOOLS_TERMINAL_H_

#include <cstdio>
#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::tools {

bool IsTerminal(std::FILE* file);  // whether it is a terminal, where a person reads it

// `text` (UTF-8) as it is safe to write to `file`. Where that is a terminal, control characters
// become \xNN or \u{NNNN}, so that a document cannot move the cursor, retitle the window or reorder
// text; newlines and tabs stay. Controls are C0, DEL, C1 and the marks that reorder text (Unicode
// bidirectional controls). Bytes that are no UTF-8 stay, but for 0x7F to 0x9F, which count as
// controls. Elsewhere `text` is unchanged.
std::string Printable(std::string_view text, std::FILE* file);

// The tool's stdout, and whether writing to it failed. One thread at a time.
class Output {
 public:
  // Writes `text`, made Printable, and flushes. False: stdout is gone or full, now or before (then
  // nothing is written); there is no use in working on.
  bool Print(std::string_view text);
  // The exit status that the tool should end with: `status` where every Print succeeded. Else it
  // prints on stderr, as text also with --json, why writing failed, and returns the status of
  // NO_SPACE or IO_ERROR; only a reader that went away (EPIPE, as with "| head") is worth no
  // message: 141, as if SIGPIPE had ended the tool.
  int Finish(std::string_view tool, int status) const;

 private:
  int error_ = 0;  // errno of the first failed Print
};

// An error's message as a command line shows it: options are named by their flags (--kv-budget),
// where the API's own message names fields.
std::string CliMessage(const api::Error& error);

// How errors are printed: as "tool: message", or with --json as a JSON object on one line.
enum class ErrorStyle { kText, kJson };
// Prints the error's CliMessage on stderr. Returns the exit status of its code (0 to 6 and 130:
// tools/USAGE.md), for the caller to end with.
int PrintError(std::string_view tool, const api::Error& error, ErrorStyle style);
// Prints "tool: text" on stderr: something that the user should know and that is no error.
void PrintNote(std::string_view tool, std::string_view text);

// Whether there is a person to ask: stdin and stderr are terminals.
bool CanConfirm();
// Asks "question [y/N] " on stderr and reads one line from stdin. True: y, Y or yes; anything else,
// and the end of stdin, is no. Blocks until there is a line.
bool Confirm(std::string_view question);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_TERMINAL_H_
