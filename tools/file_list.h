// Lists the files that the arguments of index-document stand for: a file is itself, a folder stands
// for every file below it, a pattern ("docs/**/*.md") for the files and folders that fit it.
#ifndef LECTERN_TOOLS_FILE_LIST_H_
#define LECTERN_TOOLS_FILE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"

namespace lectern::tools {

// The most files of one list. A choice: more are hardly meant (a whole disk), and each becomes a
// document, of which a store lists and compares the names.
inline constexpr size_t kMaxListedFiles = 100'000;

// Tells whether a file is the one that was there before, without reading it: editors that save by
// renaming a new file over the old one change the inode, others the time or the size.
struct FileStamp {
  uint64_t device = 0, inode = 0, bytes = 0;
  int64_t modified_ns = 0;  // since the epoch
  bool operator==(const FileStamp&) const = default;
};

struct ListedFile {
  std::string path;    // opens it; begins like the argument ("docs/a/x.txt")
  std::string within;  // the path below the argument's folder ("a/x.txt"), or the base name
  FileStamp stamp;     // taken while the list was made
  bool is_regular = true;  // false: a pipe or a device, which can be read once only
};
// A file or folder that is left out, and the reason as the rest of a sentence ("is hidden").
struct SkippedPath {
  std::string path, reason;
};
// An argument that stands for nothing. The error's param is "file".
struct MissingArgument {
  std::string argument;
  api::Error error;
};

struct FileList {
  // In the order of the arguments, each file once; the files of one argument in natural order.
  std::vector<ListedFile> files;
  std::vector<SkippedPath> skipped;
  std::vector<MissingArgument> missing;
  std::vector<std::string> folders;  // whose changes may change the list, for FolderWatch
};

struct ListOptions {
  std::string store = {};  // real path of a folder that is never read: the store of the documents
  size_t max_files = kMaxListedFiles;
  std::function<bool()> is_cancelled = {};  // asked for each folder; may be empty
};

// Whether `argument` may stand for more than one file: it is a folder, or it is nothing that is
// there and has one of the characters of patterns: * ? [ {
bool StandsForMany(const std::string& argument);

// Lists the files, without reading them. In folders it leaves out: names that begin with a dot,
// backup and lock files of editors, unfinished downloads, links out of the folder and back to a
// folder above, links to files that are listed themselves, devices, pipes and sockets, files of
// more than 1 GiB, folders that cannot be read, and the store. An argument itself may be any of
// these but the last two. In patterns, * and ? fit no slash and no dot at the beginning, ** fits
// any number of folders, [a-z] a character, {a,b} either. LIMIT_EXCEEDED (param "file"): more than
// max_files; CANCELLED.
api::Result<FileList> ListFiles(const std::vector<std::string>& arguments,
                                const ListOptions& options);

// Whether `a` stands before `b`, both names or paths: folder by folder, numbers by their value
// ("9.txt" before "10.txt"), else byte by byte. A strict weak order.
bool NaturalLess(std::string_view a, std::string_view b);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_FILE_LIST_H_
