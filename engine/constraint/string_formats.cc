#include "engine/constraint/string_formats.h"

#include <algorithm>
#include <iterator>

namespace lectern {
namespace {

struct StringFormat {
  std::string_view name, pattern;
};
// RFC 3339 in the years 1000 to 2999, with the days that each month has: the 29th of February in
// leap years alone.
#define LECTERN_DATE                                                                          \
  "(?:[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|" \
  "[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[12][0-9](?:0[48]|[2468][048]|[13579][26])|" \
  "(?:1[26]|2[048])00)-02-29)"
#define LECTERN_TIME                                                                          \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3])" \
  ":[0-5][0-9])"
#define LECTERN_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
// A label of a host's name: at most 63 characters, without "--" in its third and fourth place,
// where it says that the label is written in another way ("xn--").
#define LECTERN_LABEL                                                                  \
  "(?:[A-Za-z0-9](?:[A-Za-z0-9-]?[A-Za-z0-9])?|[A-Za-z0-9][A-Za-z0-9-](?:[A-Za-z0-9-]" \
  "[A-Za-z0-9]|(?:[A-Za-z0-9][A-Za-z0-9-]|-[A-Za-z0-9])[A-Za-z0-9-]{0,58}[A-Za-z0-9]))"
// The grammars of addresses (RFC 3986, RFC 5321) give parts no lengths, so that loops do. A state
// for each length of a part would be multiplied by those of "maxLength".
#define LECTERN_NAMES "[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*"
#define LECTERN_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define LECTERN_EMAIL "^" LECTERN_ATOM "(?:\\." LECTERN_ATOM ")*@" LECTERN_NAMES "\\.[A-Za-z]{2,}$"
#define LECTERN_PLACE "[A-Za-z0-9._~!$&'()*+,;=:@-]"  // a character of a path's part
#define LECTERN_CODED "%[0-9A-Fa-f]{2}"
#define LECTERN_PATH "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|" LECTERN_CODED ")"
#define LECTERN_REST "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|" LECTERN_CODED ")*"
#define LECTERN_QUERY "(?:\\?" LECTERN_REST ")?(?:#" LECTERN_REST ")?"
#define LECTERN_HOST LECTERN_NAMES "(?::[1-9][0-9]{0,3})?"
#define LECTERN_URI                                                \
  "[A-Za-z][A-Za-z0-9+.-]*:(?://" LECTERN_HOST "(?:/" LECTERN_PATH \
  "*)?|" LECTERN_PLACE LECTERN_PATH "*)" LECTERN_QUERY
// Without a scheme a reference begins with a path from the root, or with its query.
#define LECTERN_REFERENCE                                                              \
  "^(?:[A-Za-z][A-Za-z0-9+.-]*://" LECTERN_HOST ")?(?:/(?:" LECTERN_PLACE LECTERN_PATH \
  "*)?)?" LECTERN_QUERY "$"
#define LECTERN_HEX "[0-9a-fA-F]"
#define LECTERN_UUID(version, variant)                                                     \
  "^" LECTERN_HEX "{8}-" LECTERN_HEX "{4}-" version LECTERN_HEX "{3}-" variant LECTERN_HEX \
  "{3}-" LECTERN_HEX "{12}$"
#define LECTERN_GROUP LECTERN_HEX "{1,4}"
#define LECTERN_IPV4 LECTERN_BYTE "(?:\\." LECTERN_BYTE "){3}"
#define LECTERN_IPV6                                                                             \
  "(?:(?:" LECTERN_GROUP ":){7}" LECTERN_GROUP "|(?:" LECTERN_GROUP ":){1,7}:|(?:" LECTERN_GROUP \
  ":){1,6}:" LECTERN_GROUP "|(?:" LECTERN_GROUP ":){1,5}(?::" LECTERN_GROUP                      \
  "){2}|(?:" LECTERN_GROUP ":){1,4}(?::" LECTERN_GROUP "){3}|(?:" LECTERN_GROUP                  \
  ":){1,3}(?::" LECTERN_GROUP "){4}|(?:" LECTERN_GROUP ":){1,2}(?::" LECTERN_GROUP               \
  "){5}|" LECTERN_GROUP ":(?::" LECTERN_GROUP "){6}|:(?::" LECTERN_GROUP                         \
  "){1,7}|::|::(?:[fF]{4}:)?" LECTERN_IPV4 ")"
#define LECTERN_POINTER "(?:/(?:[^~/]|~[01])*)*"
#define LECTERN_BASE64 \
  "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
constexpr StringFormat kStringFormats[] = {
    {"date", "^" LECTERN_DATE "$"},
    {"time", "^" LECTERN_TIME "$"},
    {"date-time", "^" LECTERN_DATE "T" LECTERN_TIME "$"},
    {"duration",
     "^P(?:[0-9]{1,4}W|(?:[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|[0-9]{1,4}M(?:[0-9]{1,4}D)?|"
     "[0-9]{1,4}D)(?:T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|"
     "[0-9]{1,4}S))?|T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|"
     "[0-9]{1,4}S))$"},
    {"uuid", LECTERN_UUID(LECTERN_HEX, LECTERN_HEX)},
    {"uuid1", LECTERN_UUID("1", "[89abAB]")},
    {"uuid3", LECTERN_UUID("3", "[89abAB]")},
    {"uuid4", LECTERN_UUID("4", "[89abAB]")},
    {"uuid5", LECTERN_UUID("5", "[89abAB]")},
    {"uuid6", LECTERN_UUID("6", "[89abAB]")},
    {"uuid7", LECTERN_UUID("7", "[89abAB]")},
    {"uuid8", LECTERN_UUID("8", "[89abAB]")},
    {"email", LECTERN_EMAIL},
    {"idn-email", LECTERN_EMAIL},
    {"hostname", "^" LECTERN_LABEL "(?:\\." LECTERN_LABEL "){0,2}$"},
    {"idn-hostname",
     "^[a-z0-9]{1,30}(?:-[a-z0-9]{1,30})?(?:\\.[a-z0-9]{1,30}(?:-[a-z0-9]{1,30})?)"
     "{0,3}$"},
    {"ipv4", "^" LECTERN_IPV4 "$"},
    {"ipv6", "^" LECTERN_IPV6 "$"},
    {"ipvanyaddress", "^(?:" LECTERN_IPV4 "|" LECTERN_IPV6 ")$"},
    {"uri", "^" LECTERN_URI "$"},
    {"iri", "^" LECTERN_URI "$"},
    {"uri-reference", LECTERN_REFERENCE},
    {"iri-reference", LECTERN_REFERENCE},
    {"uri-template", "^(?:[A-Za-z0-9._~/:?&=-]|\\{[A-Za-z][A-Za-z0-9_]{0,30}\\})*$"},
    {"json-pointer", "^" LECTERN_POINTER "$"},
    // A zero within the number is read as one in front by Python's jsonschema.
    {"relative-json-pointer", "^(?:0|[1-9]{1,8})(?:#|" LECTERN_POINTER ")$"},
    // OpenAPI's "byte" is base64, too.
    {"base64", LECTERN_BASE64},
    {"byte", LECTERN_BASE64},
    // How a text is shown, or what it is the name of, shows in no text.
    {"binary", ""},
    {"password", ""},
    {"path", ""},
    {"file-path", ""},
    {"directory-path", ""},
};
#undef LECTERN_LABEL
#undef LECTERN_NAMES
#undef LECTERN_ATOM
#undef LECTERN_BASE64
#undef LECTERN_EMAIL
#undef LECTERN_PLACE
#undef LECTERN_CODED
#undef LECTERN_PATH
#undef LECTERN_REST
#undef LECTERN_QUERY
#undef LECTERN_HOST
#undef LECTERN_URI
#undef LECTERN_REFERENCE
#undef LECTERN_HEX
#undef LECTERN_UUID
#undef LECTERN_GROUP
#undef LECTERN_IPV4
#undef LECTERN_IPV6
#undef LECTERN_POINTER
#undef LECTERN_DATE
#undef LECTERN_TIME
#undef LECTERN_BYTE

}  // namespace

std::optional<std::string_view> PatternOfFormat(std::string_view format) {
  const auto at = std::ranges::find(kStringFormats, format, &StringFormat::name);
  return at == std::end(kStringFormats) ? std::nullopt : std::optional(at->pattern);
}

}  // namespace lectern
