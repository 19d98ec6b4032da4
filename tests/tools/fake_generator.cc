// The server with nothing behind it: the guard, its sockets and threads, the queue and the events
// of lectern-server, but for an answer a fixed text at a fixed speed. For
// tests/tools/server_load.py.
//
//   fake_generator SLOTS TOKENS TOKEN_MS
//
// Prints its port. POST /v1/ask streams TOKENS events "text", one each TOKEN_MS, and "done".
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <thread>

#include "tools/server/event_stream.h"
#include "tools/server/generation_slots.h"
#include "tools/server/http_guard.h"

namespace lectern::server {
namespace {

int Serve(uint32_t num_slots, int num_tokens, int token_ms) {
  GenerationSlots slots(num_slots, /*max_waiting=*/100000);
  const auto ask = [&](const HttpRequest& request) {
    auto taken = slots.Take([&] { return request.peer->IsGone(); });
    if (!std::holds_alternative<GenerationSlots::Slot>(taken)) {
      return RefusalResponse({503, "gone", "the client went away"}, request.request_id);
    }
    const auto slot =
        std::make_shared<GenerationSlots::Slot>(std::move(std::get<GenerationSlots::Slot>(taken)));
    return EventsResponse([=](EventStream& events) {
      for (int i = 0; i < num_tokens; ++i) {
        if (!events.Send("text", R"({"text":"word "})")) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(token_ms));
      }
      events.Send("done", "{}");
    });
  };
  GuardOptions options;
  options.access.hosts = {"localhost"};
  options.max_connections = 1000;
  auto listening = HttpGuard::Listen(options, ask);
  if (const auto* const refusal = std::get_if<Refusal>(&listening)) {
    std::cerr << refusal->message << "\n";
    return 1;
  }
  HttpGuard& guard = *std::get<std::unique_ptr<HttpGuard>>(listening);
  std::cout << guard.port() << std::endl;
  guard.Run();
  return 0;
}

}  // namespace
}  // namespace lectern::server

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return lectern::server::Serve(static_cast<uint32_t>(std::atoi(argv[1])), std::atoi(argv[2]),
                                std::atoi(argv[3]));
}
