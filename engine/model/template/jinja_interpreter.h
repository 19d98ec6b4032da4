// Runs the syntax tree of a Jinja template and renders its text; Program::Render (jinja.h) uses it.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_INTERPRETER_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_INTERPRETER_H_

#include "engine/model/template/jinja_syntax.h"

namespace lectern::jinja {

// One rendering, used once, by one thread. Statements are run in jinja_interpreter.cc, expressions
// in jinja_evaluate.cc and loops in jinja_loops.cc. After an error (Runtime::failed) everything
// returns without effect until Render ends.
class Interpreter : public Runtime {
 public:
  // Borrows the template, which must outlive this.
  Interpreter(const Template& parsed, const std::tm& time)
      : Runtime(parsed.limits, time), template_(parsed) {}

  // Runs the template with these variables. Codes of Program::Render.
  Result<Rendered> Render(const Variables& variables);

 private:
  using ScopePtr = std::shared_ptr<Scope>;
  // How a statement ended.
  enum class Flow { kNext, kBreak, kContinue };  // kNext: at its end; else by that statement
  // Counts how deep bodies, calls and expressions are nested while it lives, and fails beyond the
  // limit, because the interpreter recurses with them.
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

  // An empty scope inside `parent`; nullptr: the outermost one. It is not counted as memory. A
  // scope that gets a macro holds itself by it, so whoever stores one calls Keep.
  static ScopePtr NewScope(ScopePtr parent);

  // Run statements in a scope: a body until a statement breaks or continues a loop, and one
  // statement. After an error the flow does not count: loops end by Step.
  Flow Run(const Body& body, const ScopePtr& scope);
  Flow Run(const Statement& statement, const ScopePtr& scope);
  Flow RunIf(const Statement& statement, const ScopePtr& scope);
  // All values are evaluated in `scope`: none sees the names that the statement sets.
  Flow RunWith(const Statement& statement, const ScopePtr& scope);
  // Runs a block whose output is set to a variable or filtered.
  Flow RunCaptured(const Statement& statement, const ScopePtr& scope);
  void RunMacro(const Statement& statement, const ScopePtr& scope);
  void RunCallBlock(const Statement& statement, const ScopePtr& scope);
  // Appends a value's text to the output.
  void Output(const Value& value);
  // Assigns to a name, an attribute of a namespace, or a tuple of targets.
  void Assign(const Expression& target, const Value& value, const ScopePtr& scope);
  void AssignMember(const Expression& target, const Value& value, const ScopePtr& scope);
  // Runs a body and returns its output as a string value; `flow` says how the body ended.
  Value Capture(const Body& body, const ScopePtr& scope, Flow* flow);

  // Evaluates the items of a for statement and runs its loop. kNext, after a failure, if they
  // cannot be iterated over.
  Flow RunFor(const Statement& statement, const ScopePtr& scope);
  // Runs a loop whose items were found; also one that was called recursively.
  Flow RunLoop(const std::shared_ptr<LoopObject>& loop);
  // Takes the loop's next item: one that NeighbourOf has looked at already, or the source's next
  // one that passes the loop's condition. False: there is none.
  bool Pull(LoopObject& loop, Value* item);
  bool PullSource(LoopObject& loop, Value* item);
  // The number of items that pass the loop's condition: the rest is tested now to count them.
  Value LengthOfLoop(LoopObject& loop);
  // The item after (`is_next`) or before the current one; an undefined value where there is none.
  Value NeighbourOf(LoopObject& loop, bool is_next);
  std::optional<Value> FindLoopAttribute(const Value& loop, std::string_view name) override;
  // Runs a recursive loop on other items and returns its text: `loop(children)`.
  Value CallLoop(const Value& loop, CallArguments& arguments);

  // Calls a function, method, macro, recursive loop or joiner; an error for any other value. None
  // after an error. The callee may move the arguments away: they are of no use afterwards.
  Value Call(const Value& callee, CallArguments& arguments) override;
  Value CallMacro(const Value& macro, CallArguments& arguments);
  Value CallJoiner(const Value& joiner);

  // The value of an expression in a scope; after an error None.
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
  // Evaluates the arguments of a call into `given`. False: the program has failed.
  bool EvaluateArguments(const Arguments& arguments, const ScopePtr& scope, CallArguments* given);

  const Template& template_;
  ScopePtr variables_;  // the caller's, around the template's own scope
  TextBuilder* out_ = nullptr;  // where output goes now
  Value captured_;  // the text of a block, for the block's first filter
  size_t depth_ = 0;
};

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_INTERPRETER_H_
