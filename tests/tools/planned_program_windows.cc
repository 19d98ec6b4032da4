#include <windows.h>

#include <gtest/gtest.h>

#include <new>

#include "tests/system_differences.h"
#include "tests/tools/planned_program.h"

namespace lectern {
namespace {

// A file that a child may have open too, and whose handle it may get.
HANDLE OpenShared(const std::string& path, DWORD how) {
  SECURITY_ATTRIBUTES inherited = {sizeof inherited, nullptr, TRUE};
  return CreateFileA(path.c_str(), GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                     &inherited, how, FILE_ATTRIBUTE_NORMAL, nullptr);
}

}  // namespace

PlannedProgram::PlannedProgram(const std::string& plan_path) {
  const HANDLE file = OpenShared(plan_path, OPEN_EXISTING);
  const HANDLE mapping = CreateFileMappingA(file, nullptr, PAGE_READWRITE, 0, 0, nullptr);
  void* const shared = MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, sizeof(CallPlan));
  CloseHandle(mapping);
  CloseHandle(file);
  if (shared == nullptr) throw std::bad_alloc();
  plan_ = static_cast<CallPlan*>(shared);
  SetVariable(kCallPlanVariable, plan_path);
}

PlannedProgram::~PlannedProgram() {
  SetVariable(kCallPlanVariable, "");
  UnmapViewOfFile(plan_);
}

int PlannedProgram::Run(std::vector<std::string> command, const std::string& output) {
  std::string line;  // no argument has a quote or ends with a backslash
  for (const std::string& argument : command) line += "\"" + argument + "\" ";
  const HANDLE file = OpenShared(output, CREATE_ALWAYS);
  STARTUPINFOA start = {};
  start.cb = sizeof start;
  start.dwFlags = STARTF_USESTDHANDLES;
  start.hStdOutput = start.hStdError = file;
  PROCESS_INFORMATION child = {};
  EXPECT_TRUE(CreateProcessA(command.front().c_str(), line.data(), nullptr, nullptr, TRUE,
                             CREATE_NO_WINDOW, nullptr, nullptr, &start, &child));
  CloseHandle(file);
  WaitForSingleObject(child.hProcess, INFINITE);
  DWORD status = 0;
  GetExitCodeProcess(child.hProcess, &status);
  CloseHandle(child.hThread);
  CloseHandle(child.hProcess);
  return status == kKilledStatus ? -1 : static_cast<int>(status);
}

}  // namespace lectern
