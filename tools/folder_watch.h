// Waits until something changes in folders, for index-document --watch.
#ifndef LECTERN_TOOLS_FOLDER_WATCH_H_
#define LECTERN_TOOLS_FOLDER_WATCH_H_

#include <map>
#include <string>
#include <vector>

namespace lectern::tools {

// Wakes its caller when files in a set of folders change. It does not say what changed: the caller
// lists the files again and compares, so that an event that is lost, merged or misread costs
// nothing. Linux's inotify tells of changes. Where it cannot (no instance or watch is left, or the
// file system is on another machine, whose changes the kernel does not see), Wait returns every few
// seconds instead. One thread, but for Wake.
class FolderWatch {
 public:
  FolderWatch();
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // Watches exactly these folders from now on, without the folders in them. True: one is new, so
  // that a change before this call may not have been seen, and the caller should list again. A
  // folder that is not there any more is passed over.
  bool Watch(const std::vector<std::string>& folders);

  // Why changes are looked for every few seconds, as the rest of a sentence; empty: inotify tells
  // of them.
  const std::string& why_polling() const { return why_polling_; }

  // Blocks until something has changed and then nothing for 1 s (30 s after the first change at the
  // latest, as some logs never rest). Where changes are looked for, or `is_soon`, it takes no
  // longer than 2 s, or ten times as long as the last listing took (`list_seconds`), so that
  // looking never keeps a core busy. Wake ends it at once.
  void Wait(bool is_soon, double list_seconds);
  void Wake();  // any thread; a Wake before Wait counts

 private:
  // Waits for events up to `timeout_ms` (-1: for ever) and forgets them. False: none came.
  bool TakeEvents(int timeout_ms);
  void Poll(const std::string& why);  // from now on

  int inotify_ = -1;                    // negative: polling
  int wake_ = -1;                       // an eventfd; on Windows an event's handle
  bool is_woken_ = false;               // by Wake
  std::map<std::string, int> watches_;  // inotify's numbers by the folders' paths
  std::string why_polling_;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_FOLDER_WATCH_H_
