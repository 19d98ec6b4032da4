// Runs a fuzz target without libFuzzer: every given file (directories are walked), then mutations
// of each, so that builds by any compiler replay the corpus under sanitizers.
//
//   replay [--mutations N] [--seed S] PATH…
//
// An input that crashes is left in ./replay-crash.bin. The same seed gives the same inputs.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// There in builds with a sanitizer.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Bytes = std::vector<uint8_t>;
using Random = std::mt19937_64;

constexpr char kCrashFile[] = "replay-crash.bin";
constexpr size_t kMaxInput = size_t{1} << 20;

Bytes ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::filesystem::path> FilesOf(const std::vector<std::string>& arguments) {
  std::vector<std::filesystem::path> files;
  for (const std::string& argument : arguments) {
    if (!std::filesystem::is_directory(argument)) {
      files.emplace_back(argument);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argument)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// A number below `end`, small ones more often: headers come first.
size_t Somewhere(Random& random, size_t end) {
  const size_t limit = random() % 2 == 0 ? std::min<size_t>(end, 256) : end;
  return random() % limit;
}

// Values at which sizes and counts go wrong.
void PutInteresting(Bytes& bytes, size_t at, Random& random) {
  static constexpr uint64_t kValues[] = {
      0, 1, 2, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
      0x100000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0x3FFFFFFFFFFFFFFF};
  const uint64_t value = kValues[random() % std::size(kValues)] + random() % 3 - 1;
  const size_t width = std::min(size_t{1} << (random() % 4), bytes.size() - at);
  std::memcpy(bytes.data() + at, &value, width);
}

void MutateOnce(Bytes& bytes, Random& random) {
  if (bytes.empty()) bytes.push_back(static_cast<uint8_t>(random()));
  const size_t at = Somewhere(random, bytes.size());
  const size_t length = 1 + random() % std::min<size_t>(bytes.size() - at, 64);
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random() % 7) {
    case 0: bytes[at] ^= static_cast<uint8_t>(1u << random() % 8); break;
    case 1: bytes[at] = static_cast<uint8_t>(random()); break;
    case 2: PutInteresting(bytes, at, random); break;
    case 3: bytes.resize(at); break;
    case 4: bytes.erase(begin, begin + static_cast<std::ptrdiff_t>(length)); break;
    case 5: {
      const Bytes copy(begin, begin + static_cast<std::ptrdiff_t>(length));
      const size_t to = Somewhere(random, bytes.size());
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(to), copy.begin(), copy.end());
      break;
    }
    case 6: {
      const size_t to = Somewhere(random, bytes.size());
      std::memmove(bytes.data() + to, bytes.data() + at, std::min(length, bytes.size() - to));
      break;
    }
  }
  if (bytes.size() > kMaxInput) bytes.resize(kMaxInput);
}

const Bytes* current_input = nullptr;

void SaveInput() {
  std::FILE* file = std::fopen(kCrashFile, "wb");
  if (file == nullptr || current_input == nullptr) return;
  std::fwrite(current_input->data(), 1, current_input->size(), file);
  std::fclose(file);
  std::fprintf(stderr, "the input is in %s\n", kCrashFile);
}

void SaveInputOnSignal(int signal) {
  std::signal(signal, SIG_DFL);
  SaveInput();
  std::raise(signal);
}

void SaveInputOnCrash() {
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(SaveInput);
  std::signal(SIGABRT, SaveInputOnSignal);  // assert and __builtin_trap never reach the callback
  std::signal(SIGILL, SaveInputOnSignal);
  if (__sanitizer_set_death_callback == nullptr) std::signal(SIGSEGV, SaveInputOnSignal);
}

void Run(const Bytes& bytes) {
  const Bytes input(bytes);  // exactly this size on the heap, so that ASan sees a read past the end
  current_input = &input;
  LLVMFuzzerTestOneInput(input.data(), input.size());
  current_input = nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t num_mutations = 1000, seed = 1;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if ((argument == "--mutations" || argument == "--seed") && i + 1 < argc) {
      (argument == "--seed" ? seed : num_mutations) = std::strtoull(argv[++i], nullptr, 10);
    } else {
      paths.push_back(argument);
    }
  }
  const auto files = FilesOf(paths);
  if (files.empty()) {
    std::fprintf(stderr, "usage: %s [--mutations N] [--seed S] PATH…\n", argv[0]);
    return 2;
  }
  SaveInputOnCrash();
  uint64_t num_runs = 0;
  for (const auto& file : files) {
    const Bytes original = ReadFile(file);
    Run(original);
    Random random(seed);
    for (uint64_t i = 0; i < num_mutations; ++i) {
      Bytes bytes = original;
      for (uint64_t n = 1 + random() % 4; n > 0; --n) MutateOnce(bytes, random);
      Run(bytes);
    }
    num_runs += 1 + num_mutations;
  }
  std::printf("%s: %llu inputs from %zu files, seed %llu: no crash\n", argv[0],
              static_cast<unsigned long long>(num_runs), files.size(),
              static_cast<unsigned long long>(seed));
  return 0;
}
