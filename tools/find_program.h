// Finds the programs that the tools run (pdftotext), and that lectern-doctor reports on.
#ifndef LECTERN_TOOLS_FIND_PROGRAM_H_
#define LECTERN_TOOLS_FIND_PROGRAM_H_

#include <string>

namespace lectern::tools {

// The path of a program: `name` itself where it has a slash, else the first file of that name that
// may be run, in the absolute folders of PATH or, without PATH, in the system's usual ones. Windows
// also takes a backslash for a slash, adds ".exe", and looks beside the running program first.
// Empty: there is none. Folders that are not absolute are skipped: the current folder may be
// anybody's. Any thread.
std::string FindProgram(const std::string& name);

// The path of a program of ours that no user starts, such as "lectern-extract": in
// ../libexec/lectern seen from the executable, else where it is installed; on Windows beside the
// executable. It need not exist.
std::string LibexecProgram(const std::string& name);

// How a user gets the programs of a Debian package: "apt install poppler-utils"; on Windows "put
// its programs (poppler-utils) into a folder of PATH".
std::string HowToInstall(const std::string& package);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_FIND_PROGRAM_H_
