// Parses the expressions of a Jinja template. For jinja_parser.cc.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_EXPRESSIONS_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_EXPRESSIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/template/jinja_lexer.h"
#include "engine/model/template/jinja_syntax.h"

namespace lectern::jinja {

// The recursive-descent parser of expressions, with one function for each level of precedence
// (Parse…). After the first error the current token is kEnd, so that every loop over tokens ends;
// what is parsed from then on is thrown away.
class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, size_t max_depth)
      : tokens_(std::move(tokens)), max_depth_(max_depth) {}

 protected:
  // Counts how deep the parser is in nested expressions, and fails beyond the limit.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > parser_.max_depth_) parser_.FailDepth();
    }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };
  struct TupleOptions {
    bool conditional = true;     // takes "a if b else c"
    bool parenthesized = false;  // may be empty
  };

  bool failed() const { return !status_.ok(); }
  Status TakeStatus() { return std::move(status_); }
  void Fail(std::string_view message);

  const Token& current() const { return failed() ? tokens_.back() : tokens_[position_]; }
  const Token& Look() const;  // the token behind the current one
  const Token& Next();        // returns the current one and goes on
  bool IsName(std::string_view name) const;
  bool IsOperator(std::string_view text) const;
  bool SkipName(std::string_view name);
  bool SkipOperator(std::string_view text);
  void ExpectName(std::string_view name);
  void ExpectOperator(std::string_view text);
  void Expect(Token::Kind kind, std::string_view what);

  ExpressionPtr ParseExpression();
  ExpressionPtr ParseTuple() { return ParseTuple(TupleOptions{}); }
  ExpressionPtr ParseTuple(TupleOptions options);
  ExpressionPtr ParseTarget(bool with_members);  // takes "name.attribute", too
  std::string ParseNewName();                    // of a macro or a parameter
  // The filters behind an expression, which may be empty. Without a pipe, the first has none.
  ExpressionPtr ParseFilters(ExpressionPtr filtered, bool has_pipe = true);

 private:
  void FailDepth();
  ExpressionPtr New(Expression::Kind kind, uint32_t line, std::vector<ExpressionPtr> items = {});
  template <typename... Items>
  ExpressionPtr NewOf(Expression::Kind kind, uint32_t line, Items... items) {
    std::vector<ExpressionPtr> list;
    (list.push_back(std::move(items)), ...);
    return New(kind, line, std::move(list));
  }
  void SetArguments(Expression* expression, std::unique_ptr<Arguments> arguments);
  ExpressionPtr NewLiteral(uint32_t line, Value value);
  bool IsTupleEnd() const;

  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  bool TakeComparison(Operator* op);
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcat();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filters = true);
  ExpressionPtr ParsePrimary(bool with_members = false);
  ExpressionPtr ParseName(bool with_members);
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  ExpressionPtr ParsePostfix(ExpressionPtr expression);
  ExpressionPtr ParseTestsAndFilters(ExpressionPtr expression);
  ExpressionPtr ParseSubscript(ExpressionPtr expression);
  ExpressionPtr ParseBrackets(ExpressionPtr expression, uint32_t line);
  ExpressionPtr ParseCall(ExpressionPtr expression);
  ExpressionPtr ParseTest(ExpressionPtr expression);
  std::unique_ptr<Arguments> ParseArguments();
  void ParseArgument(Arguments* arguments);
  std::string ParseDottedName();

  const std::vector<Token> tokens_;
  const size_t max_depth_;
  size_t position_ = 0;
  size_t depth_ = 0;
  Status status_;
};

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_EXPRESSIONS_H_
