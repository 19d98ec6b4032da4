// How long a store of many documents takes to open, to find one document and to list all:
//
//     catalog_bench [DOCUMENTS]
//
// Writes a catalog with so many documents (10,000) into a temporary folder, each with a report as
// long as index-document's, a name, a source and 30 shards. Prints medians of 21 runs in
// milliseconds: for a file that was checked before, and once for one that was not.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "store/catalog.h"
#include "store/env.h"

namespace lectern {
namespace {

using Clock = std::chrono::steady_clock;

template <typename T>
T Take(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "catalog_bench: %s\n", result.status().message().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

double MsOf(const std::function<void()>& call) {
  const auto start = Clock::now();
  call();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double MedianOf(const std::function<void()>& call) {
  std::vector<double> ms;
  for (int i = 0; i < 21; ++i) ms.push_back(MsOf(call));
  std::ranges::nth_element(ms, ms.begin() + 10);
  return ms[10];
}

DocumentId IdOf(uint32_t number) {
  DocumentId id{};
  for (int i = 0; i < 4; ++i) id[i] = static_cast<uint8_t>(number >> (8 * i));
  id[15] = 1;
  return id;
}

std::vector<CatalogEntry> Entries(uint32_t count) {
  std::vector<CatalogEntry> entries;
  for (uint32_t i = 0; i < count; ++i) {
    CatalogEntry& entry = entries.emplace_back();
    entry.row.id = IdOf(i);
    entry.row.generation = i + 1;
    entry.row.state = DocumentState::kReady;
    entry.row.names = {{"file-" + std::to_string(i) + ".txt",
                        "/home/user/documents/file-" + std::to_string(i) + ".txt"}};
    entry.row.model_path = "/home/user/models/model.gguf";
    entry.row.report_json = "{\"report\":\"" + std::string(1500, 'r') + "\"}";
    for (int layer = 0; layer < 30; ++layer) {
      entry.shards.push_back({"layer-" + std::to_string(100 + layer) + ".shard", 100000, 1, 2});
    }
  }
  return entries;
}

void Run(uint32_t count) {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("catalog_bench-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/catalog.db";
  Env& env = Env::Default();
  {
    const auto catalog = Take(Catalog::Open(env, path, Catalog::Mode::kReadWrite));
    const Status adopted = catalog->Adopt(Entries(count));
    if (!adopted.ok()) std::exit(1);
  }
  ::sleep(3);  // a file that has just changed is checked each time
  const auto open = [&] { return Take(Catalog::Open(env, path, Catalog::Mode::kReadOnly)); };
  std::printf("%u documents, %.1f MB\n", count,
              static_cast<double>(std::filesystem::file_size(path)) / 1e6);
  std::printf("open, and check every page: %.2f ms\n", MsOf([&] { open(); }));
  std::printf("open again: %.2f ms\n", MedianOf([&] { open(); }));
  const auto catalog = open();
  const std::string name = "file-" + std::to_string(count / 2) + ".txt";
  std::printf("find by name: %.3f ms\n",
              MedianOf([&] { Take(catalog->FindReadyByName(name)).value(); }));
  std::printf("find by id: %.3f ms\n",
              MedianOf([&] { Take(catalog->FindReady(IdOf(count / 3))).value(); }));
  std::printf("shards of a document: %.3f ms\n", MedianOf([&] { Take(catalog->Shards(7)); }));
  std::printf("list all: %.1f ms\n", MedianOf([&] { Take(catalog->List()); }));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) {
  lectern::Run(argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 10'000);
  return 0;
}
