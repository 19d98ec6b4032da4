// Runs the syntax tree of a Jinja template and renders its text; jinja.h's Program uses it.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_INTERPRETER_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_INTERPRETER_H_

#include "engine/model/template/jinja_syntax.h"

namespace lectern::jinja {

// One rendering. Statements are run in jinja_interpreter.cc, expressions in jinja_evaluate.cc and
// loops in jinja_loops.cc.
class Interpreter : public Runtime {
 public:
  Interpreter(const Template& parsed, const std::tm& time)
      : Runtime(parsed.limits, time), template_(parsed) {}

  Result<Rendered> Render(const Variables& variables);

 private:
  using ScopePtr = std::shared_ptr<Scope>;
  // How a statement ended.
  enum class Flow { kNext, kBreak, kContinue };
  // Counts how deep calls and expressions are nested, and fails beyond the limit.
  class Nesting {
   public:
    explicit Nesting(Interpreter& interpreter) : interpreter_(interpreter) {
      if (++interpreter_.depth_ > interpreter_.limits.depth) {
        interpreter_.FailLimit("nested calls and expressions");
      }
    }
    ~Nesting() { --interpreter_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Interpreter& interpreter_;
  };

  static ScopePtr NewScope(ScopePtr parent);

  Flow Run(const Body& body, const ScopePtr& scope);
  Flow Run(const Statement& statement, const ScopePtr& scope);
  Flow RunIf(const Statement& statement, const ScopePtr& scope);
  Flow RunWith(const Statement& statement, const ScopePtr& scope);
  Flow RunCaptured(const Statement& statement, const ScopePtr& scope);
  void RunMacro(const Statement& statement, const ScopePtr& scope);
  void RunCallBlock(const Statement& statement, const ScopePtr& scope);
  void Output(const Value& value);
  void Assign(const Expression& target, const Value& value, const ScopePtr& scope);
  void AssignMember(const Expression& target, const Value& value, const ScopePtr& scope);
  // Runs a body and returns its output as a string value.
  Value Capture(const Body& body, const ScopePtr& scope, Flow* flow);

  Flow RunFor(const Statement& statement, const ScopePtr& scope);
  Flow RunLoop(const std::shared_ptr<LoopObject>& loop);
  bool Pull(LoopObject& loop, Value* item);
  bool PullSource(LoopObject& loop, Value* item);
  Value LengthOfLoop(LoopObject& loop);
  Value NeighbourOf(LoopObject& loop, bool is_next);
  std::optional<Value> FindLoopAttribute(const Value& loop, std::string_view name) override;
  Value CallLoop(const Value& loop, CallArguments& arguments);

  Value Call(const Value& callee, CallArguments& arguments) override;
  Value CallMacro(const Value& macro, CallArguments& arguments);
  Value CallJoiner(const Value& joiner);

  Value Evaluate(const Expression& expression, const ScopePtr& scope);
  Value EvaluateNested(const Expression& expression, const ScopePtr& scope);
  Value EvaluateName(const Expression& expression, const ScopePtr& scope);
  Value EvaluateItems(const Expression& expression, const ScopePtr& scope);
  Value EvaluateDict(const Expression& expression, const ScopePtr& scope);
  Value EvaluateSlice(const Expression& expression, const ScopePtr& scope);
  Value EvaluateConditional(const Expression& expression, const ScopePtr& scope);
  Value EvaluateConcat(const Expression& expression, const ScopePtr& scope);
  Value EvaluateComparison(const Expression& expression, const ScopePtr& scope);
  Value EvaluateCall(const Expression& expression, const ScopePtr& scope);
  Value EvaluateFilter(const Expression& expression, const ScopePtr& scope);
  bool EvaluateArguments(const Arguments& arguments, const ScopePtr& scope, CallArguments* given);

  const Template& template_;
  ScopePtr variables_;
  TextBuilder* out_ = nullptr;
  Value captured_;  // what the filters of a block filter
  size_t depth_ = 0;
};

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_INTERPRETER_H_
