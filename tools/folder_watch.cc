#include "tools/folder_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <set>

namespace lectern::tools {
namespace {

constexpr int kQuietMs = 1000;
constexpr int kLongestMs = 30'000;
constexpr double kPollMs = 2000;

// IN_MODIFY: programs that keep a log open never close it. Changes of rights and times alone, and
// reading, wake nobody.
constexpr uint32_t kChanges = IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVED_FROM |
                              IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

// Whether the folder is on a file system whose files another machine or program may change without
// the kernel's knowledge. Source of the numbers: statfs(2) and linux/magic.h.
bool IsRemote(const std::string& folder) {
  constexpr uint32_t kRemote[] = {0x6969,     0x517B,     0xFF534D42, 0xFE534D42,  // nfs, smb, cifs
                                  0x65735546, 0x01021997, 0x00C36400, 0x5346414F,  // fuse, 9p, ceph
                                  0x6B414653, 0x786F4256};                         // afs, vboxsf
  struct statfs info {};
  if (statfs(folder.c_str(), &info) != 0) return false;
  for (const uint32_t magic : kRemote) {
    if (static_cast<uint32_t>(info.f_type) == magic) return true;
  }
  return false;
}

}  // namespace

FolderWatch::FolderWatch() {
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  inotify_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (inotify_ < 0) Poll(std::string("inotify cannot be used: ") + std::strerror(errno));
}

FolderWatch::~FolderWatch() {
  if (inotify_ >= 0) close(inotify_);
  if (wake_ >= 0) close(wake_);
}

void FolderWatch::Poll(const std::string& why) {
  why_polling_ = why;
  if (inotify_ >= 0) close(inotify_);
  inotify_ = -1;
  watches_.clear();
}

bool FolderWatch::Watch(const std::vector<std::string>& folders) {
  if (inotify_ < 0) return false;
  const std::set<std::string> wanted(folders.begin(), folders.end());
  std::set<int> used;
  bool is_new = false;
  std::map<std::string, int> watches;
  for (const std::string& folder : wanted) {
    if (IsRemote(folder)) {
      Poll("\"" + folder + "\" is on a file system that tells of no changes");
      return false;
    }
    // The number is the folder's, not the path's: one that was replaced by another gets a new one.
    const int watch = inotify_add_watch(inotify_, folder.c_str(), kChanges);
    if (watch < 0 && (errno == ENOSPC || errno == ENOMEM)) {
      Poll("the system's number of inotify watches is used up (fs.inotify.max_user_watches)");
      return false;
    }
    if (watch < 0) continue;
    const auto before = watches_.find(folder);
    is_new = is_new || before == watches_.end() || before->second != watch;
    watches[folder] = watch;
    used.insert(watch);
  }
  for (const auto& [folder, watch] : watches_) {
    if (!used.contains(watch)) inotify_rm_watch(inotify_, watch);  // it may be gone already
  }
  watches_ = std::move(watches);
  return is_new;
}

bool FolderWatch::TakeEvents(int timeout_ms) {
  pollfd ends[] = {{.fd = wake_, .events = POLLIN, .revents = 0},
                   {.fd = inotify_, .events = POLLIN, .revents = 0}};  // negative: passed over
  if (poll(ends, 2, timeout_ms) <= 0) return false;
  uint64_t count = 0;
  if (ends[0].revents != 0 && read(wake_, &count, sizeof(count)) > 0) is_woken_ = true;
  char events[16384];  // holds a name of any length; the last ones of a full queue come next time
  while (ends[1].revents != 0 && read(inotify_, events, sizeof(events)) > 0) {
  }
  return true;
}

void FolderWatch::Wait(bool is_soon, double list_seconds) {
  using Clock = std::chrono::steady_clock;
  const bool is_polling = is_soon || inotify_ < 0;
  const double poll_ms = std::clamp(10'000 * list_seconds, kPollMs, 3.6e6);
  const bool is_changed = TakeEvents(is_polling ? static_cast<int>(poll_ms) : -1);
  const auto latest = Clock::now() + std::chrono::milliseconds(kLongestMs);
  while (is_changed && !is_woken_ && Clock::now() < latest && TakeEvents(kQuietMs)) {
  }
  is_woken_ = false;
}

void FolderWatch::Wake() {
  const uint64_t one = 1;
  if (write(wake_, &one, sizeof(one)) < 0) return;  // the counter is full: woken already
}

}  // namespace lectern::tools
