// Lectern for Node by N-API: index() and ask() work on threads of libuv and give promises.
//   const engine = lectern.open(store, model)
//   const report = await lectern.index(engine, text)       // what index-document --json prints
//   const answer = await lectern.ask(engine, document, question)    // what ask-document --json prints
// Errors have `code` ("not_found").
#include <lectern/lectern.h>
#include <node_api.h>

#include <functional>
#include <memory>
#include <string>

namespace {

using lectern::api::Engine;
using lectern::api::Error;

std::string Text(napi_env env, napi_value value) {
  size_t len = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &len) != napi_ok) return {};
  std::string text(len, '\0');
  napi_get_value_string_utf8(env, value, text.data(), len + 1, &len);
  return text;
}

napi_value String(napi_env env, const std::string& text) {
  napi_value value = nullptr;
  napi_create_string_utf8(env, text.data(), text.size(), &value);
  return value;
}

napi_value ToException(napi_env env, const Error& error) {
  napi_value exception = nullptr;
  napi_create_error(env, String(env, lectern_code_name(error.code)), String(env, error.message),
                    &exception);
  return exception;
}

// JSON.parse
napi_value Parse(napi_env env, const std::string& json) {
  napi_value global, parser, parse, value = nullptr, text = String(env, json);
  napi_get_global(env, &global);
  napi_get_named_property(env, global, "JSON", &parser);
  napi_get_named_property(env, parser, "parse", &parse);
  napi_call_function(env, parser, parse, 1, &text, &value);
  return value;
}

// A call on another thread; its JSON or its error settles the promise.
struct Work {
  std::function<lectern::api::Result<std::string>()> call;
  lectern::api::Result<std::string> result = std::string();
  napi_deferred deferred = nullptr;
  napi_async_work work = nullptr;
};

void Execute(napi_env, void* data) {
  auto* const work = static_cast<Work*>(data);
  work->result = work->call();
}

void Complete(napi_env env, napi_status, void* data) {
  const std::unique_ptr<Work> work(static_cast<Work*>(data));
  if (work->result.ok()) {
    napi_resolve_deferred(env, work->deferred, Parse(env, *work->result));
  } else {
    napi_reject_deferred(env, work->deferred, ToException(env, work->result.error()));
  }
  napi_delete_async_work(env, work->work);
}

napi_value Promise(napi_env env, std::function<lectern::api::Result<std::string>()> call) {
  auto work = std::make_unique<Work>();
  work->call = std::move(call);
  napi_value promise = nullptr;
  napi_create_promise(env, &work->deferred, &promise);
  napi_create_async_work(env, nullptr, String(env, "lectern"), Execute, Complete, work.get(),
                         &work->work);
  napi_queue_async_work(env, work->work);
  work.release();  // Complete's
  return promise;
}

// Arguments of a call whose first is what open() gave. The engine lives as long as a call needs it.
struct Arguments {
  napi_value values[3] = {};
  std::shared_ptr<Engine> engine;

  Arguments(napi_env env, napi_callback_info info) {
    size_t count = 3;
    void* data = nullptr;
    napi_get_cb_info(env, info, &count, values, nullptr, nullptr);
    if (napi_get_value_external(env, values[0], &data) == napi_ok) {
      engine = *static_cast<std::shared_ptr<Engine>*>(data);
    } else {
      napi_throw_type_error(env, nullptr, "the first argument is not what open() gave");
    }
  }
};

napi_value Open(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value values[2];
  napi_get_cb_info(env, info, &count, values, nullptr, nullptr);
  const std::string store = Text(env, values[0]), model = Text(env, values[1]);
  auto engine = Engine::Create({.store = store, .model = model});
  if (!engine.ok()) return napi_throw(env, ToException(env, engine.error())), nullptr;
  napi_value external = nullptr;
  napi_create_external(
      env, new auto(std::make_shared<Engine>(std::move(*engine))),
      [](napi_env, void* data, void*) { delete static_cast<std::shared_ptr<Engine>*>(data); },
      nullptr, &external);
  return external;
}

napi_value Index(napi_env env, napi_callback_info info) {
  const Arguments given(env, info);
  if (!given.engine) return nullptr;
  return Promise(env, [engine = given.engine, text = Text(env, given.values[1])] {
    auto report = engine->Index(text);
    return report.ok() ? lectern::api::Result(std::string(report->json())) : report.error();
  });
}

napi_value Ask(napi_env env, napi_callback_info info) {
  const Arguments given(env, info);
  if (!given.engine) return nullptr;
  return Promise(env, [engine = given.engine, document = Text(env, given.values[1]),
                       question = Text(env, given.values[2])]() -> lectern::api::Result<std::string> {
    auto session = engine->Open(document);
    if (!session.ok()) return session.error();
    auto answer = session->Ask(question);
    if (!answer.ok()) return answer.error();
    return answer->Json(LECTERN_OFFSET_UTF16);  // what indices of JavaScript's strings count
  });
}

napi_value Init(napi_env env, napi_value exports) {
  const napi_property_descriptor functions[] = {
      {"open", nullptr, Open, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"index", nullptr, Index, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"ask", nullptr, Ask, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
  };
  napi_define_properties(env, exports, std::size(functions), functions);
  return exports;
}

}  // namespace

NAPI_MODULE(lectern, Init)
