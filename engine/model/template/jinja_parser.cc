// The parser of the statements in a Jinja template (jinja2/parser.py); expressions are parsed in
// jinja_expressions.cc.
#include "engine/model/template/jinja_parser.h"

#include "engine/model/formats/text.h"
#include "engine/model/template/jinja_expressions.h"

namespace lectern::jinja {
namespace {

using TokenKind = Token::Kind;

// Adds statements to the parser of expressions. After an error loops end, as the base class says.
class StatementParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  // Parses the whole template.
  Result<Body> ParseAll() {
    Body body = ParseBody({}, 1);
    if (failed()) return TakeStatus();
    if (current().kind != TokenKind::kEnd) return MalformedAt(current().line, "unexpected end");
    return body;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;
  using StatementPtr = std::unique_ptr<Statement>;

  StatementPtr New(Statement::Kind kind, uint32_t line) {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = line;
    return statement;
  }

  // Parses statements up to a tag of one of these names, which is then the current token; without
  // names, up to the end. `begin`: the line of the tag that the body belongs to, for the message
  // where the end is missing.
  Body ParseBody(Ends ends, uint32_t begin) {
    const Nesting nesting(*this);
    Body body;
    while (!failed() && current().kind != TokenKind::kEnd) {
      if (current().kind == TokenKind::kData) {
        body.push_back(New(Statement::Kind::kText, current().line));
        body.back()->text = Value::Template(Next().text);
      } else if (current().kind == TokenKind::kVariableBegin) {
        body.push_back(New(Statement::Kind::kOutput, Next().line));
        body.back()->values.push_back(ParseTuple());
        Expect(TokenKind::kVariableEnd, "}}");
      } else {
        Next();
        for (const std::string_view end : ends) {
          if (IsName(end)) return body;
        }
        if (StatementPtr statement = ParseStatement()) body.push_back(std::move(statement));
        Expect(TokenKind::kBlockEnd, "%}");
      }
    }
    // The source has ended: the block that began on line `begin` has no end.
    if (ends.size() > 0) {
      Fail("\"" + std::string(*(ends.end() - 1)) + "\" is missing; the block begins on line " +
           std::to_string(begin));
    }
    return body;
  }

  // Parses the rest of a tag and the body between it and the tag that ends it. jinja2 allows a
  // colon at a tag's end.
  Body ParseBlock(Ends ends) {
    const uint32_t begin = current().line;
    SkipOperator(":");
    Expect(TokenKind::kBlockEnd, "%}");
    return ParseBody(ends, begin);
  }
  // The same, and passes the ending tag.
  Body ParseWholeBlock(std::string_view end) {
    Body body = ParseBlock({end});
    Next();
    return body;
  }

  // Parses a tag by its name, up to its "%}"; nullptr after an error. Tags of the part of jinja2
  // that is not here are refused by name.
  StatementPtr ParseStatement() {
    if (current().kind != TokenKind::kName) return Fail("a tag has no name"), nullptr;
    const std::string name = current().text;
    if (name == "for") return ParseFor();
    if (name == "if") return ParseIf();
    if (name == "set") return ParseSet();
    if (name == "with") return ParseWith();
    if (name == "macro") return ParseMacro();
    if (name == "call") return ParseCallBlock();
    if (name == "filter") return ParseFilterBlock();
    if (name == "print") return ParsePrint();
    if (name == "break") return New(Statement::Kind::kBreak, Next().line);
    if (name == "continue") return New(Statement::Kind::kContinue, Next().line);
    if (name == "generation") {
      StatementPtr statement = New(Statement::Kind::kGeneration, Next().line);
      statement->bodies.push_back(ParseWholeBlock("endgeneration"));
      return statement;
    }
    // These would read other templates, or escape HTML; a model's chat template is a single text.
    for (const std::string_view other :
         {"block", "extends", "include", "import", "from", "autoescape"}) {
      if (name == other) return Fail("the tag \"" + name + "\" is not supported"), nullptr;
    }
    return Fail("unexpected tag \"" + name + "\""), nullptr;
  }

  // "for target in values [if test] [recursive]", with an optional else. The values are no
  // conditional, because "if" begins the test.
  StatementPtr ParseFor() {
    StatementPtr statement = New(Statement::Kind::kFor, Next().line);
    statement->target = ParseTarget(/*with_members=*/false);
    ExpectName("in");
    statement->values.push_back(ParseTuple({.conditional = false}));
    if (SkipName("if")) statement->test = ParseExpression();
    statement->is_recursive = SkipName("recursive");
    statement->bodies.push_back(ParseBlock({"else", "endfor"}));
    const bool has_else = Next().text == "else";
    statement->bodies.push_back(has_else ? ParseWholeBlock("endfor") : Body());
    return statement;
  }

  // "if", any number of "elif", an optional "else": one body for each condition, and one more.
  StatementPtr ParseIf() {
    StatementPtr statement = New(Statement::Kind::kIf, Next().line);
    while (!failed()) {
      statement->values.push_back(ParseTuple({.conditional = false}));
      statement->bodies.push_back(ParseBlock({"elif", "else", "endif"}));
      const std::string end = Next().text;
      if (end == "elif") continue;
      statement->bodies.push_back(end == "else" ? ParseWholeBlock("endif") : Body());
      break;
    }
    return statement;
  }

  // "set x = value", or a block whose output is the value, which filters may change.
  StatementPtr ParseSet() {
    StatementPtr statement = New(Statement::Kind::kSet, Next().line);
    statement->target = ParseTarget(/*with_members=*/true);
    if (SkipOperator("=")) {
      statement->values.push_back(ParseTuple());
      return statement;
    }
    statement->kind = Statement::Kind::kSetBlock;
    statement->values.push_back(ParseFilters(nullptr));
    statement->bodies.push_back(ParseWholeBlock("endset"));
    return statement;
  }

  // "with a = x, b = y".
  StatementPtr ParseWith() {
    StatementPtr statement = New(Statement::Kind::kWith, Next().line);
    while (!failed() && current().kind != TokenKind::kBlockEnd) {
      if (!statement->targets.empty()) ExpectOperator(",");
      statement->targets.push_back(ParseTarget(/*with_members=*/false));
      ExpectOperator("=");
      statement->values.push_back(ParseExpression());
    }
    statement->bodies.push_back(ParseWholeBlock("endwith"));
    return statement;
  }

  // Parses the parameters of a macro or of a call block's body, in brackets. Defaults come last.
  void ParseSignature(Statement* statement) {
    ExpectOperator("(");
    while (!failed() && !IsOperator(")")) {
      if (!statement->parameters.empty()) ExpectOperator(",");
      Statement::Parameter& parameter = statement->parameters.emplace_back();
      parameter.name = ParseNewName();
      for (size_t i = 0; i + 1 < statement->parameters.size(); ++i) {
        if (statement->parameters[i].name == statement->parameters.back().name) {
          Fail("the parameter \"" + statement->parameters[i].name + "\" appears twice");
        }
      }
      const bool had_default = statement->parameters.size() > 1 &&
                               statement->parameters[statement->parameters.size() - 2].otherwise;
      if (SkipOperator("=")) {
        parameter.otherwise = ParseExpression();
      } else if (had_default) {
        Fail("a parameter without a default follows one that has it");
      }
    }
    ExpectOperator(")");
  }

  // "macro name(parameters)".
  StatementPtr ParseMacro() {
    StatementPtr statement = New(Statement::Kind::kMacro, Next().line);
    statement->name = ParseNewName();
    ParseSignature(statement.get());
    statement->bodies.push_back(ParseWholeBlock("endmacro"));
    return statement;
  }

  // "call(parameters) macro(arguments)".
  StatementPtr ParseCallBlock() {
    StatementPtr statement = New(Statement::Kind::kCall, Next().line);
    if (IsOperator("(")) ParseSignature(statement.get());
    statement->values.push_back(ParseExpression());
    const Expression* call = statement->values[0].get();
    if (!failed() && call->kind != Expression::Kind::kCall) Fail("\"call\" needs a call");
    statement->bodies.push_back(ParseWholeBlock("endcall"));
    return statement;
  }

  // "filter name | name".
  StatementPtr ParseFilterBlock() {
    StatementPtr statement = New(Statement::Kind::kFilter, Next().line);
    statement->values.push_back(ParseFilters(nullptr, /*has_pipe=*/false));
    statement->bodies.push_back(ParseWholeBlock("endfilter"));
    return statement;
  }

  // "print a, b".
  StatementPtr ParsePrint() {
    StatementPtr statement = New(Statement::Kind::kOutput, Next().line);
    while (!failed() && current().kind != TokenKind::kBlockEnd) {
      if (!statement->values.empty()) ExpectOperator(",");
      statement->values.push_back(ParseExpression());
    }
    return statement;
  }
};

}  // namespace

Result<std::shared_ptr<const Template>> ParseTemplate(std::string_view source,
                                                      const Limits& limits) {
  if (source.size() > limits.source_bytes) {
    return Status(Code::kLimitExceeded, "a chat template has more than " +
                                            std::to_string(limits.source_bytes) + " bytes");
  }
  // All parts of the interpreter take UTF-8 for granted.
  if (!IsValidUtf8(source)) return MalformedAt(1, "the template is not UTF-8");
  auto parsed = std::make_shared<Template>();
  parsed->source = source;
  parsed->limits = limits;
  LECTERN_ASSIGN(std::vector<Token> tokens, Tokenize(source));
  LECTERN_ASSIGN(parsed->body, StatementParser(std::move(tokens), limits.depth).ParseAll());
  LECTERN_RETURN_IF_ERROR(CheckRules(parsed->body));
  return std::shared_ptr<const Template>(std::move(parsed));
}

}  // namespace lectern::jinja
