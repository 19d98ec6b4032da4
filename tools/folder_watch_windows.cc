// Changes are looked for every few seconds: Windows tells of them, too, but nobody asks it yet.
#include <windows.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "tools/folder_watch.h"

namespace lectern::tools {
namespace {

constexpr double kPollMs = 2000;

// Handles have 32 bits that count, on 64-bit Windows too.
HANDLE EventOf(int wake) { return reinterpret_cast<HANDLE>(static_cast<intptr_t>(wake)); }

}  // namespace

FolderWatch::FolderWatch() {
  wake_ = static_cast<int>(
      reinterpret_cast<intptr_t>(CreateEventW(nullptr, /*bManualReset=*/FALSE, FALSE, nullptr)));
  Poll("this version does not ask Windows for changes");
}

FolderWatch::~FolderWatch() { CloseHandle(EventOf(wake_)); }

void FolderWatch::Poll(const std::string& why) { why_polling_ = why; }

bool FolderWatch::Watch(const std::vector<std::string>&) { return false; }

bool FolderWatch::TakeEvents(int timeout_ms) {
  return WaitForSingleObject(EventOf(wake_), static_cast<DWORD>(timeout_ms)) == WAIT_OBJECT_0;
}

void FolderWatch::Wait(bool, double list_seconds) {
  TakeEvents(static_cast<int>(std::clamp(10'000 * list_seconds, kPollMs, 3.6e6)));
}

void FolderWatch::Wake() { SetEvent(EventOf(wake_)); }

}  // namespace lectern::tools
