#include "tools/file_list.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/model/formats/path_text.h"
#include "tools/document_argument.h"
#include "tools/file_state.h"
#include "tools/input_file.h"
#include "tools/quantities.h"

namespace lectern::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPatternCharacters = "*?[{";

bool HasPattern(std::string_view text) {
  return text.find_first_of(kPatternCharacters) != std::string_view::npos;
}

std::string Joined(const std::string& folder, const std::string& name) {
  if (folder.empty() || folder == ".") return name;
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

bool IsInside(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) &&
         (path.size() == folder.size() || folder.ends_with('/') || path[folder.size()] == '/');
}

// The backup of vi, emacs and many others ("x~"), the automatic copy of emacs ("#x#") and the lock
// of an open document of an office program ("~$x").
bool IsEditorsFile(std::string_view name) {
  return name.ends_with('~') || name.starts_with("~$") ||
         (name.size() > 2 && name.starts_with('#') && name.ends_with('#'));
}

// Whether Chrome or Firefox is still receiving the file of this name.
bool IsUnfinishedDownload(std::string_view name) {
  return name.ends_with(".crdownload") || name.ends_with(".part");
}

// The texts that a pattern with {a,b} stands for. Braces may be nested; a brace without a comma or
// without its end stays as it is. A pattern of more than 1,000 texts does too, so that nobody asks
// for 2^40 of them.
std::vector<std::string> BracesExpanded(const std::string& pattern) {
  std::vector<std::string> done, open = {pattern};
  while (!open.empty() && done.size() + open.size() < 1000) {
    const std::string text = std::move(open.back());
    open.pop_back();
    std::vector<size_t> cuts;  // the brace, its commas and its end
    bool is_closed = false;
    for (size_t begin = text.find('{'); begin != text.npos && !is_closed;
         begin = is_closed ? begin : text.find('{', begin + 1)) {
      int depth = 0;
      cuts.clear();
      for (size_t at = begin; at < text.size() && !is_closed; ++at) {
        depth += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
        is_closed = depth == 0;
        if (at == begin || is_closed || (depth == 1 && text[at] == ',')) cuts.push_back(at);
      }
      is_closed = is_closed && cuts.size() > 2;
    }
    if (!is_closed) {
      done.push_back(text);
      continue;
    }
    for (size_t i = cuts.size() - 1; i > 0; --i) {  // the last one is expanded first: a stack
      open.push_back(text.substr(0, cuts.front()) +
                     text.substr(cuts[i - 1] + 1, cuts[i] - cuts[i - 1] - 1) +
                     text.substr(cuts.back() + 1));
    }
  }
  return open.empty() ? done : std::vector{pattern};
}

// The parts of a path between slashes; several ** behind one another are one.
std::vector<std::string> PartsOf(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool is_again = part == "**" && !parts.empty() && parts.back() == "**";
    if (!part.empty() && part != "." && !is_again) parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

// Makes one list. The error of ListFiles, if any, ends the work: see stopped().
class Lister {
 public:
  explicit Lister(const ListOptions& options) : options_(options) {}

  void Add(const std::string& given) {
    const std::string argument = ForwardSlashes(given);
    first_ = list_.files.size();
    const size_t before = list_.files.size() + list_.skipped.size() + num_again_;
    const auto info = StateOf(argument);
    const int error = errno;
    const bool is_pattern = !info && HasPattern(argument);
    if (info) {
      AddPath(argument, *info);
    } else if (is_pattern) {
      for (const std::string& pattern : BracesExpanded(argument)) AddPattern(pattern);
    } else {
      Watch(ParentOf(argument));  // it may come into being
    }
    AddLinks();
    std::sort(list_.files.begin() + static_cast<ptrdiff_t>(first_), list_.files.end(),
              [](const ListedFile& a, const ListedFile& b) { return NaturalLess(a.path, b.path); });
    const bool is_found = list_.files.size() + list_.skipped.size() + num_again_ > before;
    if (!info && !is_found) list_.missing.push_back({argument, Missing(argument, error)});
  }

  const std::optional<api::Error>& stopped() const { return stopped_; }

  // Reasons to skip a file do not hold where it is also named itself.
  FileList Take() {
    std::erase_if(list_.skipped, [this](const SkippedPath& skipped) {
      return !named_.empty() && named_.contains(RealPlace(skipped.path));
    });
    std::stable_sort(
        list_.skipped.begin(), list_.skipped.end(),
        [](const SkippedPath& a, const SkippedPath& b) { return NaturalLess(a.path, b.path); });
    list_.folders.assign(folders_.begin(), folders_.end());
    return std::move(list_);
  }

 private:
  // A link inside a folder, looked at when the folder's own files are known.
  struct Link {
    std::string path, within, root;  // root: the real path of the argument's folder
  };
  // A folder that is being read: as it is opened, below the argument, and its real path.
  struct Folder {
    std::string path, within, real;
  };
  enum class Kind { kFile, kFolder, kLink, kOther };

  static std::string ParentOf(const std::string& path) {
    const std::string parent = TextOf(PathOf(path).parent_path());
    return parent.empty() ? "." : parent;
  }

  // The real path of the folder, and the name there, which may be a link.
  static std::string RealPlace(const std::string& path) {
    return Joined(RealPath(ParentOf(path)), TextOf(PathOf(path).filename()));
  }

  static api::Error Missing(const std::string& argument, int error) {
    std::string message = "\"" + argument + "\" is not there";
    if (HasPattern(argument)) message += ", and no file fits it as a pattern";
    if (error == EACCES) message = "\"" + argument + "\" may not be read: permission denied";
    return {error == EACCES ? LECTERN_IO_ERROR : LECTERN_NOT_FOUND, message, "file"};
  }

  void Watch(const std::string& folder) { folders_.insert(folder); }
  // The folder of the file and, where `path` is a link, that of the file which it leads to.
  void WatchFile(const std::string& path, const std::string& real) {
    Watch(ParentOf(path));
    if (RealPath(ParentOf(path)) != ParentOf(real)) Watch(ParentOf(real));
  }
  void Skip(const std::string& path, const std::string& reason) {
    list_.skipped.push_back({path, reason});
  }

  bool Stops() {
    if (!stopped_ && options_.is_cancelled && options_.is_cancelled()) {
      stopped_ = api::Error{LECTERN_CANCELLED, "cancelled", ""};
    }
    return stopped_.has_value();
  }

  // An argument, or a path that is as good as one: whatever it is, it was named.
  void AddPath(const std::string& argument, const FileState& info) {
    const std::string path = WithoutEndSlashes(argument);
    if (info.is_folder) {
      root_ = RealPath(path);
      std::error_code unknown;
      if (fs::is_symlink(PathOf(path), unknown))
        Watch(ParentOf(path));  // it may lead elsewhere later
      ReadFolder({path, "", root_});
    } else {
      const std::string real = RealPath(path);
      WatchFile(path, real);
      named_.insert(RealPlace(path));
      AddFile(path, TextOf(PathOf(path).filename()), real, info);
    }
  }

  void AddFile(const std::string& path, const std::string& within, const std::string& real,
               const FileState& info) {
    if (!files_.emplace(real, path).second) {
      ++num_again_;
      return;
    }
    list_.files.push_back({path, within, info.stamp, info.is_regular});
    if (list_.files.size() > options_.max_files && !stopped_) {
      stopped_ = api::Error{LECTERN_LIMIT_EXCEEDED,
                            "more than " + Grouped(options_.max_files) +
                                " files are named, up to \"" + path + "\"; name a part of them",
                            "file"};
    }
  }

  // Hands the entries of a folder to `take`, which gets name and kind; skips what cannot be read.
  void ReadEntries(const Folder& folder,
                   const std::function<void(const std::string&, Kind)>& take) {
    if (Stops()) return;
    std::error_code error;
    fs::directory_iterator entries(PathOf(folder.path), error);
    for (const fs::directory_iterator end; !error && entries != end && !Stops();
         entries.increment(error)) {
      std::error_code unknown;  // an entry that has just gone counts as another kind
      const fs::file_status status = entries->symlink_status(unknown);
      const Kind kind = fs::is_symlink(status)        ? Kind::kLink
                        : fs::is_directory(status)    ? Kind::kFolder
                        : fs::is_regular_file(status) ? Kind::kFile
                                                      : Kind::kOther;
      take(TextOf(entries->path().filename()), kind);
    }
    if (!error) return;
    const bool is_denied = error == std::errc::permission_denied;
    Skip(folder.path, "may not be read: " + (is_denied ? "permission denied" : error.message()));
  }

  // All files below a folder that are not left out. Links wait for AddLinks. The store is known by
  // its real path, and a folder that was read already is not read again.
  void ReadFolder(const Folder& folder) {
    if (folder.real == options_.store) return Skip(folder.path, "is the store of the documents");
    if (!read_.insert(folder.real).second) {
      ++num_again_;
      return;
    }
    Watch(folder.path);
    ReadEntries(folder, [&](const std::string& name, Kind kind) {
      const Folder entry = EntryOf(folder, name);
      if (name.starts_with('.')) return Skip(entry.path, "is hidden");
      AddEntry(entry, kind);
    });
  }

  static Folder EntryOf(const Folder& folder, const std::string& name) {
    return {Joined(folder.path, name), Joined(folder.within, name),
            folder.real.ends_with('/') ? folder.real + name : folder.real + "/" + name};
  }

  void AddEntry(const Folder& entry, Kind kind) {
    if (kind == Kind::kFolder) return ReadFolder(entry);
    if (kind == Kind::kLink) return links_.push_back({entry.path, entry.within, root_});
    if (kind == Kind::kOther) return Skip(entry.path, "is no file: a device, a pipe or a socket");
    const std::string name = TextOf(PathOf(entry.path).filename());
    if (IsEditorsFile(name)) return Skip(entry.path, "is an editor's backup or lock file");
    if (IsUnfinishedDownload(name)) return Skip(entry.path, "is an unfinished download");
    const auto info = StateOf(entry.path);
    if (!info) return;  // it has just gone
    if (info->stamp.bytes > kMaxInputBytes) {
      return Skip(entry.path, "is larger than 1 GiB; index it in parts");
    }
    AddFile(entry.path, entry.within, entry.real, *info);
  }

  // Links of the argument that was just read, and of folders that they lead to.
  void AddLinks() {
    while (!links_.empty() && !Stops()) {
      const Link link = std::move(links_.back());
      links_.pop_back();
      std::error_code error;
      const std::string real = TextOf(fs::canonical(PathOf(link.path), error));
      const auto info = error ? std::nullopt : StateOf(real);
      if (!info) {
        Skip(link.path, error == std::errc::too_many_symbolic_link_levels
                            ? "is a link that leads back to itself"
                            : "is a link to a file that is not there");
      } else if (!IsInside(real, link.root)) {
        Skip(link.path, "is a link that leads out of the folder");
      } else if (info->is_folder && IsInside(RealPath(ParentOf(link.path)), real)) {
        Skip(link.path, "is a link back to a folder that it is in");
      } else if (read_.contains(real)) {
        Skip(link.path, "is a link to a folder that is read itself");
      } else if (const auto listed = files_.find(real); listed != files_.end()) {
        Skip(link.path, "is a link to \"" + listed->second + "\"");
      } else {
        root_ = link.root;
        const Kind kind = info->is_folder    ? Kind::kFolder
                          : info->is_regular ? Kind::kFile
                                             : Kind::kOther;
        if (kind == Kind::kFile) WatchFile(link.path, real);
        AddEntry({link.path, link.within, real}, kind);
      }
    }
  }

  // The folder before the first part with a pattern character is read by the parts behind it.
  void AddPattern(const std::string& pattern) {
    std::string folder(RootOf(pattern));
    const std::vector<std::string> parts = PartsOf(pattern.substr(folder.size()));
    size_t at = 0;
    for (; at < parts.size() && !HasPattern(parts[at]); ++at) folder = Joined(folder, parts[at]);
    if (at == parts.size()) {  // one of the texts of {a,b}, and no pattern any more
      if (const auto info = StateOf(folder)) AddPath(folder, *info);
      return;
    }
    if (folder.empty()) folder = ".";
    const auto info = StateOf(folder);
    if (!info || !info->is_folder) return Watch(ParentOf(folder));
    root_ = RealPath(folder);
    Fit({folder, "", root_}, parts, at);
  }

  // Adds the entries of `folder` that fit the parts from `at` on. Links to folders are followed
  // where a part names them, not by **, so that no circle is walked.
  void Fit(const Folder& folder, const std::vector<std::string>& parts, size_t at) {
    if (folder.real == options_.store || Stops()) return;
    const bool is_last = at + 1 == parts.size();
    const bool is_any_depth = parts[at] == "**";
    if (is_any_depth && is_last) return ReadFolder(folder);
    if (is_any_depth) Fit(folder, parts, at + 1);
    Watch(folder.path);
    ReadEntries(folder, [&](const std::string& name, Kind kind) {
      const Folder entry = EntryOf(folder, name);
      if (is_any_depth) {
        if (kind == Kind::kFolder && !name.starts_with('.')) Fit(entry, parts, at);
      } else if (FitsPattern(parts[at], name)) {
        if (is_last) return AddEntry(entry, kind);
        const auto info = StateOf(entry.path);
        if (!info || !info->is_folder) return;
        Fit({entry.path, entry.within, kind == Kind::kLink ? RealPath(entry.path) : entry.real},
            parts, at + 1);
      }
    });
  }

  const ListOptions& options_;
  FileList list_;
  size_t first_ = 0;                          // of the argument's files
  size_t num_again_ = 0;                      // files and folders that were there already
  std::string root_;                          // real path of the argument's folder
  std::vector<Link> links_;                   // of the argument
  std::map<std::string, std::string> files_;  // real paths, and the paths in the list
  std::set<std::string> named_;               // arguments that are files, as RealPlace has them
  std::set<std::string> read_;                // real paths of folders
  std::set<std::string> folders_;             // to be watched
  std::optional<api::Error> stopped_;
};

// The next part of a text that NaturalLess compares: a number without its leading zeros, or a byte,
// of which a slash is the least.
struct Piece {
  bool is_number;
  std::string_view digits;
  int byte;
};
Piece TakePiece(std::string_view& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  if (length == 0) {
    const int byte = text.front() == '/' ? -1 : static_cast<uint8_t>(text.front());
    text.remove_prefix(1);
    return {false, {}, byte};
  }
  std::string_view digits = text.substr(0, length);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  text.remove_prefix(length);
  return {true, digits, '0'};
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  std::string_view rest_a = a, rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    const Piece x = TakePiece(rest_a), y = TakePiece(rest_b);
    if (x.is_number && y.is_number) {
      if (x.digits.size() != y.digits.size()) return x.digits.size() < y.digits.size();
      if (x.digits != y.digits) return x.digits < y.digits;
    } else if (x.byte != y.byte) {
      return x.byte < y.byte;
    }
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;  // the same but for leading zeros
}

bool StandsForMany(const std::string& argument) {
  const auto info = StateOf(argument);
  return info ? info->is_folder : HasPattern(argument);
}

api::Result<FileList> ListFiles(const std::vector<std::string>& arguments,
                                const ListOptions& options) {
  Lister lister(options);
  for (const std::string& argument : arguments) {
    lister.Add(argument);
    if (lister.stopped()) return *lister.stopped();
  }
  return lister.Take();
}

}  // namespace lectern::tools
