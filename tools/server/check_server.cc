#include "tools/server/check_server.h"

#include <httplib.h>

#include <algorithm>
#include <string_view>

namespace lectern::server {

std::optional<std::string> CheckServer(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  constexpr time_t kSeconds = 3;
  if (!url.starts_with(kScheme)) return url + " is no address like http://127.0.0.1:8017";
  const size_t host_end = std::min(url.find('/', kScheme.size()), url.size());
  std::string path = url.substr(host_end);
  while (path.ends_with('/')) path.pop_back();
  httplib::Client client(url.substr(0, host_end));
  if (!client.is_valid()) return url + " is no address like http://127.0.0.1:8017";
  client.set_connection_timeout(kSeconds);
  client.set_read_timeout(kSeconds);
  const httplib::Result answer = client.Get(path + "/ready");
  if (!answer) return "nothing answers at " + url + ": " + httplib::to_string(answer.error());
  if (answer->status == 200) return std::nullopt;
  return url + " takes no questions: status " + std::to_string(answer->status) + ", " +
         answer->body;
}

}  // namespace lectern::server
