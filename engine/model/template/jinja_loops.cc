// The part of the interpreter that runs loops, and the attributes of the variable `loop`
// (LoopContext of jinja2/runtime.py). Items are found at once; a loop's condition is tested when
// the loop gets to an item, unless the program has asked for its length before.
#include "engine/model/template/jinja_interpreter.h"

namespace lectern::jinja {
namespace {

// loop.cycle(a, b, …): the argument for this iteration.
Value Cycle(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!arguments.named.empty()) return run.Fail("cycle() takes no named arguments");
  if (arguments.positional.empty()) return run.Fail("no items for cycling given");
  const size_t index = static_cast<size_t>(As<LoopObject>(self).index0);
  return arguments.positional[index % arguments.positional.size()];
}

// loop.changed(…): whether the arguments differ from those of the call before.
Value Changed(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!arguments.named.empty()) return run.Fail("changed() takes no named arguments");
  LoopObject& loop = As<LoopObject>(self);
  const Value values = run.List(arguments.positional, Kind::kTuple);
  if (run.failed()) return Value();
  if (loop.changed && AreEqual(&run, *loop.changed, values)) return Value::Bool(false);
  if (!loop.changed) run.Keep(self.shared_object());  // it may now contain itself
  loop.changed = values;
  return Value::Bool(true);
}

}  // namespace

Interpreter::Flow Interpreter::RunFor(const Statement& statement, const ScopePtr& scope) {
  auto loop = std::make_shared<LoopObject>();
  loop->statement = &statement;
  loop->scope = scope;
  loop->source = Items(Evaluate(*statement.values[0], scope));
  return loop->source == nullptr ? Flow::kNext : RunLoop(loop);
}

// The else body runs if no iteration came to the end of the loop's body: so does jinja2, where
// Python would ask whether a break happened.
Interpreter::Flow Interpreter::RunLoop(const std::shared_ptr<LoopObject>& loop) {
  const Statement& statement = *loop->statement;
  const Value value = Make(Kind::kLoop, loop);
  bool passed = false;  // an iteration came to the end of the body
  Value item;
  while (Step() && Pull(*loop, &item)) {
    ++loop->index0;
    loop->before = std::move(loop->current);
    loop->current = item;
    const ScopePtr scope = NewScope(loop->scope);
    Assign(*statement.target, item, scope);
    scope->Set("loop", value);
    const Flow flow = Run(statement.bodies[0], scope);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) passed = true;
  }
  if (passed || failed()) return Flow::kNext;
  return Run(statement.bodies[1], NewScope(loop->scope));
}

bool Interpreter::Pull(LoopObject& loop, Value* item) {
  if (!loop.after) return PullSource(loop, item);
  *item = *std::move(loop.after);
  loop.after = std::nullopt;
  return true;
}

// The condition sees the loop's target and not the variable `loop`, as in jinja2.
bool Interpreter::PullSource(LoopObject& loop, Value* item) {
  const Statement& statement = *loop.statement;
  while (loop.next < loop.source->items.size() && Step()) {
    *item = loop.source->items[loop.next++];
    if (statement.test == nullptr || loop.is_filtered) return true;
    const ScopePtr scope = NewScope(loop.scope);
    Assign(*statement.target, *item, scope);
    if (IsTrue(Evaluate(*statement.test, scope)) && !failed()) return true;
  }
  return false;
}

// With a condition the rest must be tested to be counted. The items that pass become the source, so
// that they are not tested twice.
Value Interpreter::LengthOfLoop(LoopObject& loop) {
  if (!loop.length && loop.statement->test == nullptr) {
    loop.length = static_cast<int64_t>(loop.source->items.size());
  }
  if (!loop.length) {
    std::vector<Value> rest;
    for (Value item; PullSource(loop, &item);) rest.push_back(item);
    loop.length = static_cast<int64_t>(rest.size()) + loop.index0 + 1 + loop.after.has_value();
    const Value list = List(std::move(rest));
    if (failed()) return Value();
    loop.source = std::static_pointer_cast<ListObject>(list.shared_object());
    loop.next = 0;
    loop.is_filtered = true;
  }
  return Value::Integer(*loop.length);
}

Value Interpreter::NeighbourOf(LoopObject& loop, bool is_next) {
  if (!is_next) {
    return loop.index0 > 0 && loop.before ? *loop.before : Undefined("there is no previous item");
  }
  Value item;
  // The item that was looked at waits in `after` for Pull.
  if (!loop.after && PullSource(loop, &item)) loop.after = item;
  return loop.after ? *loop.after : Undefined("there is no next item");
}

// Before the loop has its items it has no attributes.
std::optional<Value> Interpreter::FindLoopAttribute(const Value& value, std::string_view name) {
  LoopObject& loop = As<LoopObject>(value);
  if (loop.source == nullptr) return std::nullopt;
  const int64_t depth0 = static_cast<int64_t>(loop.depth0);
  if (name == "index") return Value::Integer(loop.index0 + 1);
  if (name == "index0") return Value::Integer(loop.index0);
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "last")
    return Value::Bool(NeighbourOf(loop, true).Is(Kind::kUndefined) && !loop.after);
  if (name == "length") return LengthOfLoop(loop);
  if (name == "revindex" || name == "revindex0") {
    const Value length = LengthOfLoop(loop);
    return Value::Integer(length.integer() - loop.index0 - (name == "revindex0"));
  }
  if (name == "previtem") return NeighbourOf(loop, false);
  if (name == "nextitem") return NeighbourOf(loop, true);
  if (name == "depth") return Value::Integer(depth0 + 1);
  if (name == "depth0") return Value::Integer(depth0);
  if (name == "cycle") return Method("cycle", Cycle, value);
  if (name == "changed") return Method("changed", Changed, value);
  return std::nullopt;
}

// The inner loop has the same statement and outer scope, and writes to a text of its own.
Value Interpreter::CallLoop(const Value& value, CallArguments& arguments) {
  const LoopObject& loop = As<LoopObject>(value);
  std::vector<std::optional<Value>> bound;
  if (!Bind(*this, "loop", arguments, {"iterable"}, 1, &bound)) return Value();
  if (!loop.statement->is_recursive) {
    return Fail("the loop must have the 'recursive' marker to be called recursively");
  }
  const Nesting nesting(*this);
  auto inner = std::make_shared<LoopObject>();
  inner->statement = loop.statement;
  inner->scope = loop.scope;
  inner->depth0 = loop.depth0 + 1;
  inner->source = Items(*bound[0]);
  if (inner->source == nullptr) return Value();
  TextBuilder text(*this);
  TextBuilder* const outer = std::exchange(out_, &text);
  RunLoop(inner);
  out_ = outer;
  return text.TakeString();
}

}  // namespace lectern::jinja
