// The parser of the expressions in a Jinja template; jinja_parser.cc, which parses statements,
// derives from it. It follows jinja2/parser.py.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_EXPRESSIONS_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_EXPRESSIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/template/jinja_lexer.h"
#include "engine/model/template/jinja_syntax.h"

namespace lectern::jinja {

// A recursive-descent parser with one function for each level of precedence, the lowest first:
// ParseExpression (a if b else c), ParseOr, ParseAnd, ParseNot, ParseComparison, ParseSum,
// ParseConcat, ParseProduct, ParsePower, ParseUnary, ParsePrimary. Each takes its tokens away and
// returns a tree.
//
// After the first error the current token is kEnd, so that every loop over tokens ends; what is
// parsed from then on is thrown away, and no function needs to check for errors. Used once, by one
// thread.
class ExpressionParser {
 public:
  // `tokens`: of Tokenize, the last one is kEnd. `max_depth`: Limits::depth; recursion takes stack,
  // and the template is untrusted.
  ExpressionParser(std::vector<Token> tokens, size_t max_depth)
      : tokens_(std::move(tokens)), max_depth_(max_depth) {}

 protected:
  // Counts how deep the parser is in nested expressions while it lives, and fails beyond the limit.
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
  // Records the first error, with the current line; later ones are ignored.
  void Fail(std::string_view message);

  const Token& current() const { return failed() ? tokens_.back() : tokens_[position_]; }
  const Token& Look() const;  // the token behind the current one
  const Token& Next();        // returns the current one and goes on, but never past kEnd
  bool IsName(std::string_view name) const;          // whether the current token is this name
  bool IsOperator(std::string_view text) const;      // or this operator
  bool SkipName(std::string_view name);              // goes on if it is; false: it is not
  // Goes on if the current token is this operator; false: it is not.
  bool SkipOperator(std::string_view text);
  void ExpectName(std::string_view name);            // fails if it is not
  // As SkipOperator, but fails if it is not; the message names the operator.
  void ExpectOperator(std::string_view text);
  // Goes on if the current token is of this kind, else fails; `what` is its name for the message.
  void Expect(Token::Kind kind, std::string_view what);

  // Parses a whole expression.
  ExpressionPtr ParseExpression();
  // Parses one expression, or several with commas between them, which make a tuple.
  ExpressionPtr ParseTuple() { return ParseTuple(TupleOptions{}); }
  // A comma makes a tuple, also behind a single item. Ends before ")" or the end of the tag. Fails
  // if there is nothing, unless options.parenthesized, when that is the empty tuple.
  ExpressionPtr ParseTuple(TupleOptions options);
  ExpressionPtr ParseTarget(bool with_members);  // of an assignment; or also "name.attribute"
  std::string ParseNewName();                    // of a macro or a parameter
  // Parses the filters behind an expression, "| a | b(c)"; returns `filtered` itself where there is
  // none. `filtered` is empty in a filter block and in a block set. Without `has_pipe` the first
  // filter has no "|" before it. Whether filters of these names exist is checked later
  // (jinja_rules.cc).
  ExpressionPtr ParseFilters(ExpressionPtr filtered, bool has_pipe = true);

 private:
  // Fails with kLimitExceeded: the template is nested too deeply.
  void FailDepth();
  // Makes a node of the tree; never returns nullptr. Items may be nullptr. The node's depth is one
  // more than that of the deepest item, or 1 without items, because not only the parser but
  // everything that walks the tree recurses: "a + b + c …" is flat to parse and deep to evaluate.
  // Beyond max_depth_ the parser fails (FailDepth), and the node is returned all the same.
  ExpressionPtr New(Expression::Kind kind, uint32_t line, std::vector<ExpressionPtr> items = {});
  template <typename... Items>
  ExpressionPtr NewOf(Expression::Kind kind, uint32_t line, Items... items) {
    std::vector<ExpressionPtr> list;
    (list.push_back(std::move(items)), ...);
    return New(kind, line, std::move(list));
  }
  // Gives a call, filter or test its arguments, which count in its depth.
  void SetArguments(Expression* expression, std::unique_ptr<Arguments> arguments);
  ExpressionPtr NewLiteral(uint32_t line, Value value);
  // Whether a tuple ends here, so that a comma before this place makes a tuple of one item.
  bool IsTupleEnd() const;

  // One function a level, the loosest first; the class comment has the order.
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  // Takes a comparison's operator away, "not in" included. False: there is none.
  bool TakeComparison(Operator* op);
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcat();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  // Parses "-x", "+x", or a primary expression with calls, attributes, tests and filters behind it.
  // `with_filters` is false behind a sign: "-x | abs" is (-x) | abs.
  ExpressionPtr ParseUnary(bool with_filters = true);
  // Parses a literal, a name, or an expression in brackets.
  ExpressionPtr ParsePrimary(bool with_members = false);
  ExpressionPtr ParseName(bool with_members);
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  // Parses what follows a primary expression: ".name", "[key]", "(arguments)"; then tests and
  // filters.
  ExpressionPtr ParsePostfix(ExpressionPtr expression);
  ExpressionPtr ParseTestsAndFilters(ExpressionPtr expression);
  ExpressionPtr ParseSubscript(ExpressionPtr expression);
  // Parses the inside of "[…]": a key, a tuple of keys, or a slice.
  ExpressionPtr ParseBrackets(ExpressionPtr expression, uint32_t line);
  // Parses the arguments of a call, with their brackets.
  ExpressionPtr ParseCall(ExpressionPtr expression);
  ExpressionPtr ParseTest(ExpressionPtr expression);
  std::unique_ptr<Arguments> ParseArguments();
  void ParseArgument(Arguments* arguments);
  // A filter's or test's name, which may have points.
  std::string ParseDottedName();

  const std::vector<Token> tokens_;
  const size_t max_depth_;
  size_t position_ = 0;  // of the current token
  size_t depth_ = 0;
  Status status_;
};

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_EXPRESSIONS_H_
