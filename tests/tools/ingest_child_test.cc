// Programs that read documents, as children: a pdftotext and a Tesseract of Python that misbehave.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/tools/printed_pages.h"
#include "tools/find_program.h"
#include "tools/ingest/ingest.h"
#include "tools/ingest/limited_child.h"
#include "tools/ingest/pdf.h"

namespace lectern::tools {
namespace {

using namespace printed;

class ChildTest : public testing::Test {
 protected:
  ChildTest() {
    folder_ = std::filesystem::temp_directory_path() /
              ("lectern-ingest-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  ~ChildTest() override { std::filesystem::remove_all(folder_); }

  // A pdftotext that does this, in Python: without processes of its own.
  std::string Script(const std::string& body) {
    const std::filesystem::path path = folder_ / "pdftotext";
    std::ofstream(path) << "#!/usr/bin/env python3\nimport os, resource, signal, sys, time\n"
                        << body;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  api::Result<PagedText> Read(const std::string& body, ChildLimits limits = {},
                              std::function<bool()> is_cancelled = {}) {
    return ReadPdf("%PDF-1.4 bytes", {.name = "\"x.pdf\"",
                                      .is_cancelled = std::move(is_cancelled),
                                      .pdftotext = Script(body),
                                      .limits = limits});
  }
  void ExpectError(const std::string& body, lectern_code code, const std::string& says,
                   ChildLimits limits = {}) {
    auto paged = Read(body, limits);
    ASSERT_FALSE(paged.ok()) << body;
    EXPECT_EQ(paged.error().code, code) << paged.error().message;
    EXPECT_NE(paged.error().message.find(says), std::string::npos) << paged.error().message;
  }
  std::filesystem::path folder_;
};

TEST_F(ChildTest, IsGivenTheBytesAsAFileAndItsOutputIsRead) {
  auto paged = Read(
      "sys.stdin.buffer.seek(5)\nassert sys.stdin.buffer.read() == b'1.4 bytes'\n"
      "sys.stdin.buffer.seek(0)\nsys.stdout.write('''" +
      ThreePages() + "''')");
  ASSERT_TRUE(paged.ok()) << paged.error().message;
  EXPECT_EQ(paged->text, "A B C&AB<\n\nÄ\n\nlast\n");
}

TEST_F(ChildTest, HasLimitsAndNothingOfOurs) {
  const int open_file = open("/dev/null", O_RDONLY);  // not closed on exec
  auto paged = Read(
      "for name, most in (('AS', 1 << 30), ('CPU', 20), ('CORE', 0), ('FSIZE', 0), ('NPROC', 0)):\n"
      "  assert resource.getrlimit(getattr(resource, 'RLIMIT_' + name))[0] == most, name\n"
      "assert os.getpgid(0) == os.getpid()\n"
      "assert dict(os.environ).get('LC_ALL') == 'C' and 'HOME' not in os.environ, os.environ\n"
      "assert sorted(map(int, os.listdir('/proc/self/fd')))[:4] == [0, 1, 2, 3]\n"
      "assert len(os.listdir('/proc/self/fd')) == 4\n"
      "sys.stdout.write('''" +
      ThreePages() + "''')");
  close(open_file);
  EXPECT_TRUE(paged.ok()) << paged.error().message;
}

TEST_F(ChildTest, ThatHangsIsEnded) {
  const auto begin = std::chrono::steady_clock::now();
  ExpectError("signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(100)",
              LECTERN_LIMIT_EXCEEDED, "too long", {.wall_seconds = 0.5});
  ExpectError("os.close(1); os.close(2); time.sleep(100)", LECTERN_LIMIT_EXCEEDED, "too long",
              {.wall_seconds = 0.5});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(ChildTest, ThatNeverStopsComputingIsEnded) {
  ExpectError("while True: pass", LECTERN_LIMIT_EXCEEDED, "too long", {.cpu_seconds = 1});
}

TEST_F(ChildTest, ThatFloodsIsEnded) {
  ExpectError(
      "sys.stdout.write('<doc><page><flow><block><line>')\n"
      "while True: sys.stdout.write('<word>x</word>' * 4096)",
      LECTERN_LIMIT_EXCEEDED, "too much text", {.output_bytes = 1 << 22});
  ExpectError("while True: sys.stderr.write('e' * 65536)", LECTERN_LIMIT_EXCEEDED, "too long",
              {.wall_seconds = 1});
}

TEST_F(ChildTest, ThatTakesAllMemoryFails) {
  ExpectError("x = bytearray(3 << 30)", LECTERN_INVALID_ARGUMENT, "damaged");
}

TEST_F(ChildTest, ThatDiesOrFailsSaysWhy) {
  ExpectError("os.kill(os.getpid(), signal.SIGSEGV)", LECTERN_INVALID_ARGUMENT, "signal 11");
  ExpectError("print('Command Line Error: Incorrect password', file=sys.stderr); sys.exit(1)",
              LECTERN_INVALID_ARGUMENT, "password");
  ExpectError("print('Syntax Error: no xref\\nmore', file=sys.stderr); sys.exit(1)",
              LECTERN_INVALID_ARGUMENT, "cannot read it: Syntax Error: no xref");
  ExpectError(
      "print('Syntax Error: Couldn\\'t find the \\'Adobe.PubSec\\' security handler', "
      "file=sys.stderr); sys.exit(1)",
      LECTERN_INVALID_ARGUMENT, "certificate");
  ExpectError("print('Command Line Error: Wrong page range given', file=sys.stderr); sys.exit(99)",
              LECTERN_INVALID_ARGUMENT, "no pages");
  ExpectError("print('Syntax Error: no pages object\\n' * 9999, file=sys.stderr); sys.exit(99)",
              LECTERN_INVALID_ARGUMENT, "no pages");
  ExpectError("print('Usage: pdftotext [options]', file=sys.stderr); sys.exit(99)",
              LECTERN_IO_ERROR, "poppler");
  ExpectError("sys.exit(99)", LECTERN_IO_ERROR, "poppler");
}

TEST_F(ChildTest, ThatLacksTablesOfCharactersIsNoted) {
  const std::string complaint =
      "print(\"Syntax Error: Missing language pack for 'Adobe-GB1' mapping\", file=sys.stderr)\n";
  auto paged = Read(complaint + "sys.stdout.write('''" + ThreePages() + "''')");
  ASSERT_TRUE(paged.ok()) << paged.error().message;
  EXPECT_NE(NoteOf(*paged).find("poppler-data"), std::string::npos) << NoteOf(*paged);
  ExpectError(complaint + "sys.stdout.write('<doc><page></page></doc>')", LECTERN_EMPTY_DOCUMENT,
              "poppler-data");
}

TEST_F(ChildTest, ThatPrintsOtherThingsIsRefused) {
  ExpectError("print('hello')", LECTERN_IO_ERROR, "poppler");
  ExpectError("sys.stdout.buffer.write(b'<doc>' + bytes(range(256)) * 1000)", LECTERN_IO_ERROR,
              "poppler");
  ExpectError("pass", LECTERN_IO_ERROR, "poppler");
  ExpectError("sys.stdout.write('''" + ThreePages().substr(0, 600) + "''')", LECTERN_IO_ERROR,
              "poppler");
  ExpectError("sys.stdout.write('<doc></doc>')", LECTERN_INVALID_ARGUMENT, "no pages");
  ExpectError("sys.stdout.write('<doc><page></page><page></page></doc>')", LECTERN_EMPTY_DOCUMENT,
              "no text on its 2 pages");
}

// A PDF of three pages, of which the second has no words and the third has garbage, and programs
// that stand for Tesseract and pdftoppm; Tesseract fails on the third page.
class RecognitionTest : public ChildTest {
 protected:
  std::string Program(const std::string& name, const std::string& body) {
    const std::string script = Script(body), path = folder_ / name;
    std::filesystem::rename(script, path);
    return path;
  }
  static std::string Page(const std::string& word) {
    const std::string boxes = R"(xMin="10" yMin="10" xMax="90" yMax="20">)";
    return "<page width=\"100\" height=\"100\"><flow><block " + boxes + "<line " + boxes +
           "<word " + boxes + word + "</word></line></block></flow></page>";
  }
  PdfOptions Options() {
    std::string garbage;
    for (int i = 0; i < 30; ++i) garbage += "\uE123";
    PdfOptions options{.name = "\"x.pdf\""};
    options.recognition = RecognitionOptions{};
    options.recognition->pdftoppm =
        Program("pdftoppm",
                "assert sys.stdin.buffer.read() == b'%PDF-1.4 bytes'\n"
                "sys.stdout.write('image of page ' + sys.argv[sys.argv.index('-f') + 1])");
    options.recognition->tesseract = Program(
        "tesseract",
        "if sys.argv[1:] == ['--list-langs']:\n"
        "  print('List of available languages (3):\\ndeu\\neng\\nosd')\n"
        "  sys.exit()\n"
        "assert os.environ['OMP_THREAD_LIMIT'] == '1' and 'HOME' not in os.environ\n"
        "assert sys.argv[sys.argv.index('-l') + 1] == 'eng', sys.argv\n"
        "if sys.stdin.read()[-1] == '3': print('broken image', file=sys.stderr); sys.exit(1)\n"
        "sys.stdout.write('''" +
            RecognisedTable() + "''')");
    options.pdftotext = Script("sys.stdout.write('''<doc>" + Page("Text.") + "<page></page>" +
                               Page(garbage) + "</doc>''')");
    return options;
  }
  void ExpectRefused(const PdfOptions& options, lectern_code code, const std::string& says) {
    auto read = ReadPdf("%PDF-1.4 bytes", options);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, code);
    EXPECT_EQ(read.error().param, "ocr");
    EXPECT_NE(read.error().message.find(says), std::string::npos) << read.error().message;
  }
};

TEST_F(RecognitionTest, ReadsThePagesWithoutText) {
  auto paged = ReadPdf("%PDF-1.4 bytes", Options());
  ASSERT_TRUE(paged.ok()) << paged.error().message;
  EXPECT_EQ(paged->text.find("Text.\n\nRecognised text\n\nEnd.\n"), 0u) << paged->text;
  EXPECT_EQ(paged->recognised_pages, std::vector<uint64_t>{2});
  EXPECT_EQ(paged->unmapped_pages, std::vector<uint64_t>{3});
  const std::string note = NoteOf(*paged);
  EXPECT_NE(note.find("text of page 2 was recognised from images (Tesseract, eng)"),
            std::string::npos)
      << note;
  EXPECT_NE(note.find("page 3 was not recognised"), std::string::npos) << note;
  EXPECT_NE(note.find("broken image"), std::string::npos) << note;
}

TEST_F(RecognitionTest, NamesWhatIsMissing) {
  PdfOptions options = Options();
  options.recognition->languages = "deu+../x";
  ExpectRefused(options, LECTERN_INVALID_ARGUMENT, "no language \"../x\", only: deu, eng");
  options.recognition->pdftoppm = "/none/pdftoppm";
  options.recognition->languages = "eng";
  ExpectRefused(options, LECTERN_NOT_FOUND, "apt install poppler-utils");
  const std::string tesseract = options.recognition->tesseract;
  options.recognition->tesseract = "/none/tesseract";
  const std::string with_text = options.pdftotext;
  options.pdftotext = Script("sys.stdout.write('<doc><page></page></doc>')");
  ExpectRefused(options, LECTERN_NOT_FOUND, "apt install tesseract-ocr");
  options.pdftotext = with_text;
  options.recognition->tesseract = tesseract;
  options.recognition->is_cancelled = [] { return true; };
  ExpectRefused(options, LECTERN_CANCELLED, "cancelled");
}

TEST_F(RecognitionTest, ReadablePagesAreKeptWithoutTesseract) {
  PdfOptions options = Options();
  options.recognition->tesseract = "/none/tesseract";
  auto paged = ReadPdf("%PDF-1.4 bytes", options);
  ASSERT_TRUE(paged.ok()) << paged.error().message;
  EXPECT_EQ(paged->text.find("Text.\n"), 0u) << paged->text;
  EXPECT_EQ(paged->pages_without_text, std::vector<uint64_t>{2});
  const std::string note = NoteOf(*paged);
  EXPECT_NE(note.find("were not recognised: "), std::string::npos) << note;
  EXPECT_NE(note.find("apt install tesseract-ocr"), std::string::npos) << note;
  EXPECT_NE(note.find("page 2 has no text"), std::string::npos) << note;
}

TEST_F(ChildTest, ThatIsMissingIsNamed) {
  for (const std::string program : {"no-such-pdftotext", "/none/pdftotext"}) {
    auto paged = ReadPdf("%PDF-", {.pdftotext = program});
    ASSERT_FALSE(paged.ok());
    EXPECT_EQ(paged.error().code, LECTERN_NOT_FOUND);
    EXPECT_EQ(paged.error().param, "pdftotext");
    EXPECT_NE(paged.error().message.find("apt install poppler-utils"), std::string::npos);
  }
}

// A child's own children end with it.
TEST_F(ChildTest, IsGoneWhenItIsCancelled) {
  const std::filesystem::path pids = folder_ / "pids";
  std::filesystem::create_directory(pids);
  std::atomic<bool> cancel = false;
  std::thread canceller([&] {
    for (int i = 0; i < 2000 && std::filesystem::is_empty(pids); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    cancel = true;
  });
  // An empty file: it may write none.
  auto paged = Read("os.mkdir('" + (pids.string() + "/' + str(os.getpid()))\ntime.sleep(100)"), {},
                    [&] { return cancel.load(); });
  const auto returned = std::chrono::steady_clock::now();
  canceller.join();
  ASSERT_FALSE(paged.ok());
  EXPECT_EQ(paged.error().code, LECTERN_CANCELLED);
  ASSERT_FALSE(std::filesystem::is_empty(pids));
  for (const auto& entry : std::filesystem::directory_iterator(pids)) {
    EXPECT_NE(kill(std::stoi(entry.path().filename()), 0), 0);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - returned, std::chrono::seconds(5));
}

// As where a piece of output does not fit into memory.
TEST_F(ChildTest, AnExceptionEndsTheChild) {
  const std::string script = Script("print(os.getpid(), flush=True)\ntime.sleep(100)");
  std::string output;
  EXPECT_THROW(RunLimited({script}, "", {},
                          [&](std::string_view piece) -> bool {
                            output = piece;
                            throw std::bad_alloc();
                          },
                          {}),
               std::bad_alloc);
  EXPECT_NE(kill(std::stoi(output), 0), 0);
  EXPECT_EQ(errno, ESRCH);
}

// The current folder may be anybody's, so that an empty or relative folder of PATH is passed over.
TEST_F(ChildTest, ProgramsAreFoundInAbsoluteFoldersOfPath) {
  const std::string script = Script("");
  const std::string before = std::getenv("PATH");
  const auto there = std::filesystem::current_path();
  std::filesystem::current_path(folder_.parent_path());
  for (const auto& [path, found] :
       {std::pair(":/no-such-folder:" + folder_.string(), script),
        std::pair(folder_.filename().string() + ":.:" + folder_.string() + ":/", script),
        std::pair(folder_.filename().string() + ":.:", std::string()),
        std::pair(std::string(), std::string())}) {
    setenv("PATH", path.c_str(), 1);
    EXPECT_EQ(FindProgram("pdftotext"), found) << path;
  }
  unsetenv("PATH");
  EXPECT_EQ(FindProgram("env"), "/usr/bin/env");
  EXPECT_EQ(FindProgram("./a"), "./a");
  setenv("PATH", before.c_str(), 1);
  std::filesystem::current_path(there);
}

TEST_F(ChildTest, ManyAtOnceDoNotMixUp) {
  const std::string script = Script("sys.stdout.write(sys.stdin.read() * 100000)");
  std::vector<std::thread> threads;
  std::atomic<int> num_right = 0;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      std::string output;
      const ChildEnd end = RunLimited({script}, std::to_string(i), {},
                                      [&](std::string_view piece) {
                                        output += piece;
                                        return true;
                                      },
                                      {});
      num_right += end.how == ChildEnd::How::kExited && end.number == 0 &&
                   output == std::string(100000, static_cast<char>('0' + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_right, 6);
}

}  // namespace
}  // namespace lectern::tools
