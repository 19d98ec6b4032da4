#include "engine/model/formats/safetensors.h"

#include <gtest/gtest.h>

#include "engine/model/formats/json.h"
#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

std::string LittleEndian64(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

std::string File(const std::string& header, size_t data_bytes) {
  return LittleEndian64(header.size()) + header + std::string(data_bytes, 'd');
}

Result<SafetensorsTable> Parse(const std::string& file) {
  const MemoryFile exact(file);  // ASan sees a read past the end
  return ParseSafetensors({exact.data(), exact.size()}, "m.safetensors");
}

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    hex += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    hex += "0123456789abcdef"[c & 15];
  }
  return hex;
}

TEST(SafetensorsTest, ReadsWhatThePythonPackageWrote) {
  const std::string folder = LECTERN_SOURCE_DIR "/tests/golden/";
  const std::string file = ReadWholeFile(folder + "small.safetensors");
  const Result<SafetensorsTable> table = Parse(file);
  ASSERT_TRUE(table.ok()) << table.status().message();
  const Result<Json> golden = ParseJson(ReadWholeFile(folder + "model_golden.json"));
  ASSERT_TRUE(golden.ok());
  const Json::Object& tensors = *golden->Find("tensors")->object();
  ASSERT_EQ(table->size(), tensors.size());
  for (const auto& [name, expected] : tensors) {
    const auto at = table->find(name);
    ASSERT_NE(at, table->end()) << name;
    const SafetensorsEntry& entry = at->second;
    EXPECT_EQ(entry.dtype, *expected.Find("dtype")->string()) << name;
    const Json::Array& shape = *expected.Find("shape")->array();
    ASSERT_EQ(entry.shape.size(), shape.size()) << name;
    for (size_t i = 0; i < shape.size(); ++i) EXPECT_EQ(entry.shape[i], shape[i].integer());
    EXPECT_EQ(Hex(file.substr(entry.begin, entry.end - entry.begin)),
              *expected.Find("hex")->string())
        << name;
  }
}

TEST(SafetensorsTest, AcceptsPaddingMetadataAndAnEmptyTable) {
  EXPECT_TRUE(Parse(File("{}", 0)).ok());
  EXPECT_TRUE(Parse(File("{}      ", 0)).ok());
  EXPECT_TRUE(Parse(File(R"({"__metadata__":{"format":"pt"}})", 0)).ok());
  EXPECT_TRUE(Parse(File(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]},)"
                         R"("a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
                         7))
                  .ok());
}

// The length 640 is 80 02 as bytes, which is how a pickle begins.
TEST(SafetensorsTest, HeaderOf640BytesIsNotMistakenForAPickle) {
  std::string header = "{}";
  header.resize(0x280, ' ');
  EXPECT_TRUE(Parse(File(header, 0)).ok());
}

struct BadFile {
  std::string file;
  Code code;
  std::string word;
};

std::string OneTensor(const std::string& body) { return File("{\"t\":{" + body + "}}", 8); }

TEST(SafetensorsTest, RefusesEachMalformedFileWithItsReason) {
  constexpr Code kMalformed = Code::kMalformedModel;
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  ASSERT_TRUE(Parse(OneTensor(good)).ok());
  const std::string deep = R"({"t":{"x":[[[[1]]]],)" + good + "}}";
  std::string many_values = "0";
  for (int i = 0; i < (1 << 20); ++i) many_values += ",0";
  const BadFile cases[] = {
      {"", Code::kTruncated, "0 bytes"},
      {"\x01\0\0", Code::kTruncated, "too few"},
      {LittleEndian64(100) + "{}", Code::kTruncated, "header of 100"},
      {LittleEndian64(UINT64_MAX) + "{}", kMalformed, "limit"},
      {LittleEndian64((uint64_t{16} << 20) + 1) + "{}", kMalformed, "limit"},
      {LittleEndian64(0), kMalformed, "'{'"},
      {File("[]", 0), kMalformed, "'{'"},
      {File(" {}", 0), kMalformed, "'{'"},
      {File("{", 0), kMalformed, "byte"},
      {File("{}x", 0), kMalformed, "byte"},
      {File(std::string("{}\0", 3), 0), kMalformed, "NUL"},
      {File("{\"t\":{" + good + "},\"t\":{" + good + "}}", 8), kMalformed, "twice"},
      {File(deep, 8), kMalformed, "nested"},
      {File(R"({"__metadata__":[]})", 0), kMalformed, "__metadata__"},
      {File(R"({"__metadata__":{"a":1}})", 0), kMalformed, "not a string"},
      {File("{\"__metadata__\":{\"a\":\"" + std::string((1 << 20) + 1, 'x') + "\"}}", 0),
       Code::kLimitExceeded, "longer than 1048576"},
      {File("{\"a\":[" + many_values + "]}", 0), Code::kLimitExceeded, "more than 1048576 values"},
      {File(R"({"t":3})", 8), kMalformed, "dtype"},
      {File("{\"\":{" + good + "}}", 8), kMalformed, "name"},
      {File("{\"" + std::string(1025, 'n') + "\":{" + good + "}}", 8), kMalformed, "1025"},
      {OneTensor(R"("shape":[2],"data_offsets":[0,8])"), kMalformed, "dtype is missing"},
      {OneTensor(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), kMalformed, "F33"},
      {OneTensor(R"("dtype":7,"shape":[2],"data_offsets":[0,8])"), kMalformed, "dtype"},
      {OneTensor(R"("dtype":"F32","data_offsets":[0,8])"), kMalformed, "shape is missing"},
      {OneTensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), kMalformed, "size"},
      {OneTensor(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,8])"), kMalformed, "size"},
      {OneTensor(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"), kMalformed, "size"},
      {OneTensor(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), kMalformed, "shape"},
      {OneTensor(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8])"),
       kMalformed, "size"},
      {OneTensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"), kMalformed,
       "dimensions"},
      {OneTensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8])"),
       kMalformed, "overflows"},
      {OneTensor(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"),
       kMalformed, "overflows"},
      {OneTensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), kMalformed, "need 12"},
      {OneTensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,8])"), kMalformed, "span 8"},
      {OneTensor(R"("dtype":"F32","shape":[2])"), kMalformed, "data_offsets is missing"},
      {OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), kMalformed, "data_offsets"},
      {OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4,8])"), kMalformed,
       "data_offsets"},
      {OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":8)"), kMalformed, "data_offsets"},
      {OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":["0","8"])"), kMalformed,
       "data_offsets"},
      {OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0.5,8.5])"), kMalformed,
       "data_offsets"},
      {OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), kMalformed, "range"},
      {OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"), kMalformed, "range"},
      {OneTensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), kMalformed, "hole"},
      {OneTensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), Code::kTruncated, "8 bytes"},
      {OneTensor(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), Code::kTruncated,
       "describes 16"},
      {OneTensor(
           R"("dtype":"U8","shape":[8],"data_offsets":[18446744073709551607,18446744073709551615])"),
       kMalformed, "hole"},
      {File(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
            R"("b":{"dtype":"U8","shape":[5],"data_offsets":[3,8]}})",
            8),
       kMalformed, "overlaps"},
      {File(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
            R"("b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
            8),
       kMalformed, "overlaps"},
      {File("{}", 1), Code::kTruncated, "1 bytes of data"},
      {"PK\x03\x04 a zip of pickles", Code::kUnsafeFormat, "save_pretrained"},
      {"\x80\x02}q\x01(X\x05 a pickle", Code::kUnsafeFormat, "pickle"},
  };
  for (const BadFile& bad : cases) {
    const Result<SafetensorsTable> table = Parse(bad.file);
    const std::string shown = bad.file.substr(0, 120);
    ASSERT_FALSE(table.ok()) << shown;
    const std::string& message = table.status().message();
    EXPECT_EQ(table.status().code(), bad.code) << shown << " -> " << message;
    EXPECT_NE(message.find(bad.word), std::string::npos) << message << " lacks " << bad.word;
    EXPECT_NE(message.find("m.safetensors"), std::string::npos) << message;
  }
}

TEST(SafetensorsTest, EveryTruncationIsATypedError) {
  const std::string file = ReadWholeFile(LECTERN_SOURCE_DIR "/tests/golden/small.safetensors");
  for (size_t length = 0; length < file.size(); ++length) {
    const Result<SafetensorsTable> table = Parse(file.substr(0, length));
    ASSERT_FALSE(table.ok()) << length;
    EXPECT_EQ(table.status().code(), Code::kTruncated) << length << table.status().message();
  }
  EXPECT_EQ(Parse(file + "x").status().code(), Code::kTruncated);
}

TEST(SafetensorsTest, EveryFlippedHeaderBitIsAnErrorOrAnotherValidTable) {
  const std::string file = ReadWholeFile(LECTERN_SOURCE_DIR "/tests/golden/small.safetensors");
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const Result<SafetensorsTable> table = Parse(flipped);
    if (!table.ok()) continue;
    for (const auto& [name, entry] : *table) {
      EXPECT_LE(entry.begin, entry.end);
      EXPECT_LE(entry.end, file.size());
    }
  }
}

// Every field of either tensor with every value that it must not have.
TEST(SafetensorsTest, EveryFieldRefusesEveryWrongValue) {
  using Fields = std::map<std::string, std::string>;
  const auto header = [](const Fields& a, const Fields& b) {
    const auto object = [](const Fields& fields) {
      std::string json;
      for (const auto& [name, value] : fields) {
        if (!value.empty()) json += (json.empty() ? "\"" : ",\"") + name + "\":" + value;
      }
      return "{" + json + "}";
    };
    return "{\"a\":" + object(a) + ",\"b\":" + object(b) + "}";
  };
  const Fields good[] = {{{"dtype", "\"F32\""}, {"shape", "[2]"}, {"data_offsets", "[0,8]"}},
                         {{"dtype", "\"F16\""}, {"shape", "[2,2]"}, {"data_offsets", "[8,16]"}}};
  ASSERT_TRUE(Parse(File(header(good[0], good[1]), 16)).ok());
  const std::vector<std::string> wrong_type = {"",   "null", "7",  "0.5",
                                               "-1", "true", "{}", "{\"a\":1}"};
  const std::map<std::string, std::vector<std::string>> wrong = {
      {"dtype",
       {"[]", "[\"F32\"]", "\"\"", "\"f32\"", "\"F32 \"", "\"F31\"", "\"INT8\"", "\"float32\"",
        "\"F64\"", "\"U8\"", "\"F4\"", "\"F6_E2M3\"", "\"C64\"", "\"BOOL\""}},
      {"shape",
       {"\"2\"",
        "[]",
        "[0]",
        "[1]",
        "[3]",
        "[2,3]",
        "[8,8]",
        "[-2]",
        "[2.5]",
        "[\"2\"]",
        "[true]",
        "[null]",
        "[[2]]",
        "[{}]",
        "[18446744073709551615]",
        "[18446744073709551616]",
        "[9223372036854775808,2]",
        "[4294967296,4294967296]",
        "[1,1,1,1,1,1,1,1,2]",
        "[1e2]"}},
      {"data_offsets",
       {"\"0,8\"",
        "[]",
        "[0]",
        "[8]",
        "[0,8,16]",
        "[8,0]",
        "[-8,0]",
        "[0,-8]",
        "[0.5,8.5]",
        "[\"0\",\"8\"]",
        "[true,8]",
        "[null,8]",
        "[0,null]",
        "[[0],[8]]",
        "[0,7]",
        "[0,9]",
        "[1,9]",
        "[16,24]",
        "[0,18446744073709551615]",
        "[0,18446744073709551616]",
        "[18446744073709551608,18446744073709551615]"}}};
  size_t count = 0;
  const auto expect = [&](const std::string& file, Code code) {
    EXPECT_EQ(CodeName(Parse(file).status().code()), CodeName(code)) << file.substr(8, 200);
    ++count;
  };
  for (const size_t tensor : {0, 1}) {
    for (const auto& [field, values] : wrong) {
      for (const auto* list : {&wrong_type, &values}) {
        for (const std::string& value : *list) {
          Fields changed[] = {good[0], good[1]};
          changed[tensor][field] = value;
          expect(File(header(changed[0], changed[1]), 16), Code::kMalformedModel);
        }
      }
    }
  }
  const std::string whole = header(good[0], good[1]);
  for (size_t data = 0; data < 40; ++data) {
    if (data != 16) expect(File(whole, data), Code::kTruncated);
  }
  const uint64_t length = whole.size();
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t wrong_length = uint64_t{1} << bit;
    if (wrong_length == length) continue;
    const bool fits = wrong_length <= length + 16;
    const bool is_malformed = fits || wrong_length > (uint64_t{16} << 20);
    expect(LittleEndian64(wrong_length) + whole + std::string(16, 'x'),
           is_malformed ? Code::kMalformedModel : Code::kTruncated);
  }
  for (const std::string metadata : {"[]", "7", "true", "\"a\"", "null", "{\"a\":1}",
                                     "{\"a\":null}", "{\"a\":{}}", "{\"a\":[]}", "{\"a\":true}"}) {
    expect(File("{\"__metadata__\":" + metadata + "}", 0), Code::kMalformedModel);
  }
  std::printf("trust: bad safetensors: %zu, each refused with its code\n", count);
  EXPECT_GE(count, 250u);
}

TEST(SafetensorsIndexTest, NoNameLeavesTheFolder) {
  size_t count = 0;
  const auto expect = [&](const std::string& name, Code code) {
    const std::string json = "{\"weight_map\":{\"a\":\"" + name + "\"}}";
    EXPECT_EQ(CodeName(ParseSafetensorsIndex(json, "i").status().code()), CodeName(code)) << json;
    ++count;
  };
  for (const std::string prefix :
       {"/", "./", "../", "../../", "a/", "a/../", "\\\\", "..\\\\", "c:", "//host/", "~/../",
        "\\u002e\\u002e/", "\\u0000", ".", ".."}) {
    for (const std::string file : {"x.safetensors", "model-00001-of-00002.safetensors"}) {
      expect(prefix + file, Code::kMalformedModel);
    }
  }
  for (const std::string ending : {"", ".", ".safetensor", ".safetensors ", ".safetensors\\u0000",
                                   ".SAFETENSORS", ".safetensors.txt", ".gguf", ".json", "/"}) {
    expect("x" + ending, Code::kMalformedModel);
  }
  for (const std::string ending : {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}) {
    expect("x" + ending, Code::kUnsafeFormat);
  }
  std::printf("trust: bad model.safetensors.index.json: %zu, each refused with its code\n", count);
}

TEST(SafetensorsIndexTest, ReadsTheMap) {
  const Result<SafetensorsIndex> index = ParseSafetensorsIndex(
      R"({"metadata":{"total_size":8},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})",
      "i");
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(index->at("b"), "m-2.safetensors");
}

TEST(SafetensorsIndexTest, RefusesEachMalformedIndexWithItsReason) {
  constexpr Code kMalformed = Code::kMalformedModel;
  const auto mapped = [](const std::string& name) {
    return "{\"weight_map\":{\"a\":\"" + name + "\"}}";
  };
  std::string many_values = "0";
  for (int i = 0; i < (1 << 20); ++i) many_values += ",0";
  const BadFile cases[] = {
      {"", kMalformed, "JSON"},
      {"[]", kMalformed, "weight_map"},
      {"{}", kMalformed, "weight_map"},
      {R"({"weight_map":[]})", kMalformed, "weight_map"},
      {R"({"weight_map":{}})", kMalformed, "empty"},
      {R"({"weight_map":{"a":1}})", kMalformed, "file name"},
      {R"({"weight_map":{"":"x.safetensors"}})", kMalformed, "0 bytes"},
      {"{\"weight_map\":{\"" + std::string(1025, 'n') + "\":\"x.safetensors\"}}", kMalformed,
       "1025 bytes"},
      {R"({"weight_map":{"a":"x.safetensors"},"m":)" + std::string(16, '[') + std::string(16, ']') +
           "}",
       kMalformed, "nested deeper than 16"},
      {R"({"weight_map":{"a":"x.safetensors"},"m":[)" + many_values + "]}", Code::kLimitExceeded,
       "more than 1048576 values"},
      {std::string((size_t{16} << 20) + 1, ' '), Code::kLimitExceeded, "larger than 16777216"},
      {R"({"weight_map":{"a":"x.safetensors","a":"y.safetensors"}})", kMalformed, "twice"},
      {mapped(""), kMalformed, "plain name"},
      {mapped("../x.safetensors"), kMalformed, "plain name"},
      {mapped("/etc/x.safetensors"), kMalformed, "plain name"},
      {mapped("d/x.safetensors"), kMalformed, "plain name"},
      {mapped("d\\\\x.safetensors"), kMalformed, "plain name"},
      {mapped("c:x.safetensors"), kMalformed, "plain name"},
      {mapped(".safetensors"), kMalformed, "plain name"},
      {mapped("x\\u0000.safetensors"), kMalformed, "plain name"},
      {mapped("x.txt"), kMalformed, "plain name"},
      {mapped(std::string(300, 'x') + ".safetensors"), kMalformed, "plain name"},
      {mapped("pytorch_model-1.bin"), Code::kUnsafeFormat, "save_pretrained"},
  };
  for (const BadFile& bad : cases) {
    const Result<SafetensorsIndex> index = ParseSafetensorsIndex(bad.file, "i.json");
    const std::string& message = index.status().message();
    ASSERT_FALSE(index.ok()) << bad.file.substr(0, 120);
    EXPECT_EQ(index.status().code(), bad.code) << message;
    EXPECT_NE(message.find(bad.word), std::string::npos) << message << " lacks " << bad.word;
    EXPECT_TRUE(message.starts_with("i.json")) << message;
  }
}

}  // namespace
}  // namespace lectern
