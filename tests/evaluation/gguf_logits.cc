// Logits of a model, for comparison with those of others (quantized_gguf.py):
//
//     gguf_logits MODEL CONTEXT < ids > logits
//
// ids: int32, little-endian. The first CONTEXT of them are the document, keys and values in f32;
// the rest are asked one by one with everything read. logits: f32 [ids - CONTEXT, vocabulary].
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>

#include "tests/engine/test_documents.h"

int main(int argc, char** argv) {
  using namespace lectern;
  if (argc != 3) {
    std::fputs("usage: gguf_logits MODEL CONTEXT < ids > logits\n", stderr);
    return 2;
  }
  const std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
  std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
  std::copy_n(bytes.data(), ids.size() * sizeof(int32_t), reinterpret_cast<char*>(ids.data()));
  const size_t context = std::strtoul(argv[2], nullptr, 10);
  if (context == 0 || context >= ids.size()) {
    std::fputs("gguf_logits: CONTEXT must leave ids to ask\n", stderr);
    return 2;
  }
  try {
    const testing::TempFolder folder;
    const auto indexed = testing::IndexTokens(
        argv[1], {ids.begin(), ids.begin() + static_cast<ptrdiff_t>(context)}, folder.path());
    const auto session = DocumentSession::Create(indexed.document, indexed.model, *DefaultBackend(),
                                                 std::make_shared<ThreadPool>(1), 0);
    Status status = session.status();
    for (size_t t = context; status.ok() && t < ids.size(); ++t) {
      const auto logits = (*session)->Step({&ids[t], 1}, 1, true, nullptr);
      status = logits.status();
      if (status.ok()) std::fwrite(logits->data(), sizeof(float), logits->size(), stdout);
    }
    if (status.ok()) return 0;
    std::fprintf(stderr, "gguf_logits: %s\n", status.message().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gguf_logits: %s\n", error.what());
  }
  return 1;
}
