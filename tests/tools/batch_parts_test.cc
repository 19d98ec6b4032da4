// The parts of lectern-batch, with servers that fail in the place of PostgreSQL and of the bucket.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/batch/bucket.h"
#include "tools/batch/catalog.h"
#include "tools/batch/document_options.h"
#include "tools/batch/file_hash.h"
#include "tools/batch/lease_keeper.h"
#include "tools/batch/manifest.h"
#include "tools/batch/retry.h"
#include "tools/batch/s3_store.h"
#include "tools/batch/scratch_folder.h"
#include "tools/batch/worker.h"
#include "tools/batch/worker_name.h"

namespace lectern::batch {
namespace {

using std::chrono::milliseconds;

constexpr Backoff::Limits kFast = {.tries = 4, .first = milliseconds(1), .most = milliseconds(2)};

std::string Absolute(const std::string& path) { return path[0] == '/' ? path : "/here/" + path; }

// --- names --------------------------------------------------------------------------------------

TEST(BucketTest, ParsesPlacesInOneForm) {
  for (const char* const text : {"s3://corpora/law/2024", "s3://corpora/law/2024/"}) {
    auto place = ParseBucket(text);
    ASSERT_TRUE(place.ok()) << text;
    EXPECT_EQ(place->bucket, "corpora");
    EXPECT_EQ(place->prefix, "law/2024");
    EXPECT_EQ(place->Text(), "s3://corpora/law/2024");
  }
  auto whole = ParseBucket("s3://corpora");
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->Text(), "s3://corpora");
}

TEST(BucketTest, RefusesWhatASignatureWouldNotFit) {
  for (const char* const text :
       {"", "corpora", "s3://", "s3://ab", "s3://Corpora", "s3://corpora//x", "s3://corpora/a/../b",
        "s3://corpora/./b", "s3://corpora/a\nb", "https://corpora/x", "s3://-corpora"}) {
    const auto place = ParseBucket(text);
    ASSERT_FALSE(place.ok()) << text;
    EXPECT_EQ(place.error().param, "bucket");
  }
}

TEST(BucketTest, KeysNameTheRowAndTheBytes) {
  const BucketPlace place = {.bucket = "corpora", .prefix = "law"};
  const std::string id(32, 'a'), one = HashText("1"), two = HashText("2");
  const std::string key = BundleKey(place, id, "name", "{}", one);
  EXPECT_EQ(key, BundleKey(place, id, "name", "{}", one));
  EXPECT_TRUE(key.starts_with("law/" + id + "/"));
  EXPECT_TRUE(key.ends_with("-" + one.substr(0, 32) + ".lectern"));
  EXPECT_NE(key, BundleKey(place, id, "name", "{}", two));
  EXPECT_NE(key, BundleKey(place, id, "name", "{\"keep\":1}", one));
  EXPECT_NE(key, BundleKey(place, id, "other", "{}", one));
  // The border between name and options counts.
  EXPECT_NE(BundleKey(place, id, "a", "bc", one), BundleKey(place, id, "ab", "c", one));
}

TEST(BucketTest, PathsAreEscapedAsS3SignsThem) {
  EXPECT_EQ(UrlPath("a/b-c._~9Z"), "a/b-c._~9Z");
  EXPECT_EQ(UrlPath("a b+ü%"), "a%20b%2B%C3%BC%25");
}

TEST(WorkerNameTest, ComesFromTheIndexVariable) {
  std::map<std::string, std::string> variables;
  const auto name = [&variables] {
    return WorkerName([&](const char* which) { return variables[which]; }, "node7", 123);
  };
  EXPECT_EQ(name(), "node7:123");
  variables["JOB_COMPLETION_INDEX"] = "3";
  EXPECT_EQ(name(), "kubernetes:node7:3");
  variables["SLURM_JOB_ID"] = "99";
  variables["SLURM_ARRAY_TASK_ID"] = "0";
  EXPECT_EQ(name(), "slurm:99_0");
  variables["SLURM_ARRAY_JOB_ID"] = "98";
  variables["SLURM_PROCID"] = "0";
  EXPECT_EQ(name(), "slurm:98_0");
  variables["SLURM_PROCID"] = "2";
  EXPECT_EQ(name(), "slurm:98_0.2");
}

// --- manifests ----------------------------------------------------------------------------------

TEST(ManifestTest, TakesPathsAndObjects) {
  auto entries = ParseManifest(
      "docs/a.txt\r\n\n{\"file\":\"/b.pdf\",\"name\":\"b\",\"options\":{\"kv_type\":\"q8\"}}\n"
      "{\"file\":\"c\"}\ndocs/a.txt",
      "{\"keep\":0.5,\"kv_type\":\"f16\"}", Absolute);
  ASSERT_TRUE(entries.ok()) << entries.error().message;
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].name, "docs/a.txt");
  EXPECT_EQ((*entries)[0].file, "/here/docs/a.txt");
  EXPECT_EQ((*entries)[0].options, R"({"keep":0.5,"kv_type":"f16"})");
  EXPECT_EQ((*entries)[1].name, "b");
  EXPECT_EQ((*entries)[1].options, R"({"keep":0.5,"kv_type":"q8"})");
  EXPECT_EQ((*entries)[2].name, "c");
}

TEST(ManifestTest, NamesTheWrongLine) {
  const std::string wrong[] = {"{\"file\":\"\"}",
                               "{\"file\":\"x\",\"extra\":1}",
                               "{\"file\":\"x\"} y",
                               "{\"file\":\"x\",\"name\":\"\"}",
                               "\xff",
                               std::string(1025, 'x'),
                               std::string("a\0b", 3),
                               "{\"file\":\"y\",\"name\":\"first\"}",
                               "{\"file\":\"x\",\"options\":{\"keep\":[1]}}",
                               "{\"file\":\"x\",\"options\":{\"format\":1}}"};
  for (const std::string& line : wrong) {
    const auto entries = ParseManifest("first\n" + line + "\n", "{}", Absolute);
    ASSERT_FALSE(entries.ok()) << line;
    EXPECT_EQ(entries.error().code, LECTERN_INVALID_ARGUMENT);
    EXPECT_TRUE(entries.error().message.starts_with("line 2 of the manifest: ")) << line;
  }
  EXPECT_FALSE(ParseManifest("first", "[]", Absolute).ok());
  EXPECT_FALSE(ParseManifest("first", "{\"colour\":1}", Absolute).ok());
}

TEST(ManifestTest, OptionsReachTheEngine) {
  auto options = ReadDocumentOptions(
      R"({"kv_type":"q8","keep":0.25,"format":"markdown","encoding":"latin1","ocr":"auto"})");
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->format, "markdown");
  EXPECT_EQ(options->encoding, "latin1");
  EXPECT_EQ(options->ocr, "");
  api::IndexOptions index;
  options->index.PutInto(index);
  EXPECT_EQ(index.kv_type, LECTERN_KV_Q8);
  EXPECT_EQ(index.keep, 0.25);
}

// --- the catalog --------------------------------------------------------------------------------

TEST(CatalogTest, IsReadAsItWasWritten) {
  const CatalogEntry one = {.name = "law \"1\"\n",
                            .document = std::string(32, 'a'),
                            .key = "law/x",
                            .sha256 = HashText("x"),
                            .bytes = 7};
  CatalogEntry two = one;
  two.name = "2";
  auto entries = ParseCatalog(CatalogLine(one) + CatalogLine(two));
  ASSERT_TRUE(entries.ok()) << entries.error().message;
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name, one.name);
  EXPECT_EQ((*entries)[1].name, "2");
  EXPECT_EQ((*entries)[0].key, one.key);
  EXPECT_EQ((*entries)[0].bytes, 7u);
  EXPECT_EQ((*entries)[0].sha256, one.sha256);
  EXPECT_EQ(CatalogKey({"corpora", "law"}), "law/catalog.jsonl");
  EXPECT_EQ(CatalogKey({"corpora", ""}), "catalog.jsonl");
}

TEST(CatalogTest, RefusesDamagedLines) {
  const CatalogEntry good = {.name = "1",
                             .document = std::string(32, 'a'),
                             .key = "law/x",
                             .sha256 = HashText("x"),
                             .bytes = 7};
  CatalogEntry no_id = good, no_hash = good, no_bytes = good, no_key = good;
  no_id.document = "../../etc/passwd";
  no_hash.sha256 = "x";
  no_bytes.bytes = 0;
  no_key.key = "";
  const std::string line = CatalogLine(good);
  for (const std::string& wrong :
       {CatalogLine(no_id), CatalogLine(no_hash), CatalogLine(no_bytes), CatalogLine(no_key),
        std::string("\n"), std::string("[]\n"), line.substr(0, line.size() - 3)}) {
    const auto entries = ParseCatalog(line + wrong);
    ASSERT_FALSE(entries.ok()) << wrong;
    EXPECT_EQ(entries.error().code, LECTERN_CORRUPT);
    EXPECT_TRUE(entries.error().message.starts_with("line 2 "));
  }
}

// --- the folder of a worker ---------------------------------------------------------------------

TEST(ScratchFolderTest, IsRemovedUnlessItIsKept) {
  std::string path;
  for (const bool is_kept : {true, false}) {
    ScratchFolder folder(testing::TempDir(), "slurm:7_0/..");
    path = folder.path();
    EXPECT_TRUE(path.ends_with("/lectern-batch-slurm_7_0_..")) << path;
    ASSERT_TRUE(folder.Make().ok());
    std::ofstream(path + "/bundle") << "x";
    if (is_kept) folder.Keep();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    ScratchFolder folder(testing::TempDir(), "kept");
    ASSERT_TRUE(folder.Make().ok());
    folder.Keep();
    path = folder.path();
  }
  EXPECT_TRUE(std::filesystem::remove(path));
  ScratchFolder nowhere("/proc/none", "x");
  EXPECT_EQ(nowhere.Make().error().param, "scratch");
}

// --- tries --------------------------------------------------------------------------------------

TEST(RetryTest, TellsWhatMayPass) {
  for (const long status : {0, 408, 429, 500, 502, 503, 504})
    EXPECT_TRUE(IsRetryableStatus(status));
  for (const long status : {200, 204, 301, 400, 403, 404, 409, 412, 501}) {
    EXPECT_FALSE(IsRetryableStatus(status)) << status;
  }
  for (const char* const state : {"", "08006", "57P01", "57P03", "53300", "40001", "40P01"}) {
    EXPECT_TRUE(IsRetryableSqlState(state)) << state;
  }
  for (const char* const state : {"42P01", "23505", "22001", "28P01", "42501", "57014"}) {
    EXPECT_FALSE(IsRetryableSqlState(state)) << state;
  }
}

TEST(RetryTest, DelaysDoubleWithinTheirBoundsAndEnd) {
  Backoff backoff({.tries = 7, .first = milliseconds(100), .most = milliseconds(800)}, 1);
  for (const int full : {100, 200, 400, 800, 800, 800}) {
    const auto delay = backoff.Next();
    EXPECT_GE(delay.count(), full / 2);
    EXPECT_LE(delay.count(), full);
  }
  EXPECT_EQ(backoff.Next().count(), 0);
}

TEST(RetryTest, AStopEndsTheWait) {
  Backoff backoff({.tries = 2, .first = std::chrono::hours(1), .most = std::chrono::hours(1)});
  EXPECT_FALSE(backoff.Wait([] { return true; }));
}

// --- the bucket ---------------------------------------------------------------------------------

// Answers requests from a list; an empty list: no answer.
class FakeClient final : public HttpClient {
 public:
  using Answer = std::function<api::Result<HttpResponse>(const HttpRequest&)>;
  explicit FakeClient(std::vector<HttpRequest>& sent) : sent_(sent) {}
  api::Result<HttpResponse> Send(const HttpRequest& request, const StopCheck& stop) override {
    sent_.push_back(request);
    if (IsStopped(stop)) return api::Error{LECTERN_CANCELLED, "cancelled", ""};
    if (!answer) return api::Error{LECTERN_IO_ERROR, "no answer", "endpoint"};
    return answer(request);
  }
  Answer answer;

 private:
  std::vector<HttpRequest>& sent_;
};

HttpResponse Reply(long status, const std::string& body = "") {
  return {.status = status, .headers = {}, .body = body};
}

class S3StoreTest : public testing::Test {
 protected:
  S3StoreTest() {
    auto client = std::make_unique<FakeClient>(sent_);
    client_ = client.get();
    store_ =
        std::make_unique<S3Store>(std::move(client), S3Place{"http://s3", "corpora"}, 4, kFast);
    path_ = testing::TempDir() + "/batch_parts_test.bundle";
    std::ofstream(path_) << "0123456789";
    facts_ = {10, HashText("0123456789")};
  }
  ~S3StoreTest() override { std::filesystem::remove(path_); }

  std::vector<HttpRequest> sent_;
  FakeClient* client_;
  std::unique_ptr<S3Store> store_;
  std::string path_;
  ObjectFacts facts_;
};

TEST_F(S3StoreTest, GivesUpAfterItsTries) {
  const auto head = store_->Head("key", {});
  EXPECT_EQ(head.error().code, LECTERN_IO_ERROR);
  EXPECT_EQ(sent_.size(), 4u);
  client_->answer = [](const HttpRequest&) { return Reply(503); };
  EXPECT_EQ(store_->Head("key", {}).error().code, LECTERN_IO_ERROR);
  EXPECT_EQ(sent_.size(), 8u);
}

TEST_F(S3StoreTest, TriesAgainUntilTheServerIsThere) {
  client_->answer = [this](const HttpRequest&) -> api::Result<HttpResponse> {
    if (sent_.size() < 3) return Reply(sent_.size() == 1 ? 503 : 500);
    return HttpResponse{200, {{"content-length", "7"}, {"x-amz-meta-sha256", HashText("x")}}, ""};
  };
  auto facts = store_->Head("a b", {});
  ASSERT_TRUE(facts.ok());
  ASSERT_TRUE(*facts);
  EXPECT_EQ((*facts)->bytes, 7u);
  EXPECT_EQ((*facts)->sha256, HashText("x"));
  EXPECT_EQ(sent_.back().url, "http://s3/corpora/a%20b");
}

TEST_F(S3StoreTest, SaysWhatIsWrong) {
  const auto code = [this](long status, const char* body) {
    client_->answer = [=](const HttpRequest&) { return Reply(status, body); };
    return store_->Get("key", path_ + ".got", {}).error().code;
  };
  EXPECT_EQ(code(403, ""), LECTERN_READ_ONLY);
  EXPECT_EQ(code(404, "<Code>NoSuchBucket</Code>"), LECTERN_NOT_FOUND);
  EXPECT_EQ(store_->Get("key", path_ + ".got", {}).error().param, "bucket");
  EXPECT_EQ(code(404, "<Code>NoSuchKey</Code>"), LECTERN_NOT_FOUND);
  EXPECT_EQ(store_->Get("key", path_ + ".got", {}).error().param, "key");
  EXPECT_EQ(code(301, ""), LECTERN_INVALID_ARGUMENT);
  EXPECT_EQ(code(400, ""), LECTERN_IO_ERROR);
}

TEST_F(S3StoreTest, SendsPartsAndTheirSums) {
  client_->answer = [](const HttpRequest& request) -> api::Result<HttpResponse> {
    if (request.url.ends_with("?uploads=")) return Reply(200, "<UploadId>a&amp;b</UploadId>");
    if (request.method == "PUT")
      return HttpResponse{200, {{"etag", "\"" + request.url + "\""}}, ""};
    return Reply(200, "<CompleteMultipartUploadResult/>");
  };
  ASSERT_TRUE(store_->Put("key", path_, facts_, {}).ok());
  ASSERT_EQ(sent_.size(), 5u);
  EXPECT_EQ(sent_[1].url, "http://s3/corpora/key?partNumber=1&uploadId=a%26b");
  EXPECT_EQ(sent_[3].url, "http://s3/corpora/key?partNumber=3&uploadId=a%26b");
  EXPECT_EQ(sent_[3].offset, 8u);
  EXPECT_EQ(sent_[3].bytes, 2u);
  EXPECT_EQ(sent_[3].headers.front(), "x-amz-content-sha256: " + HashText("89"));
  EXPECT_NE(sent_[4].body.find("<PartNumber>3</PartNumber>"), std::string::npos);
}

TEST_F(S3StoreTest, TakesBackPartsWhenOneFails) {
  for (const bool fails_at_end : {false, true}) {
    sent_.clear();
    client_->answer = [fails_at_end](const HttpRequest& request) -> api::Result<HttpResponse> {
      if (request.url.ends_with("?uploads=")) return Reply(200, "<UploadId>u</UploadId>");
      if (request.method == "PUT" && fails_at_end) return HttpResponse{200, {{"etag", "e"}}, ""};
      if (request.method == "PUT") return Reply(400);
      if (request.method == "POST") return Reply(200, "<Error><Code>InternalError</Code></Error>");
      return Reply(204);
    };
    EXPECT_FALSE(store_->Put("key", path_, facts_, {}).ok());
    EXPECT_EQ(sent_.back().method, "DELETE");
    EXPECT_EQ(sent_.back().url, "http://s3/corpora/key?uploadId=u");
  }
}

TEST(S3Test, EndpointsHaveNoUserAndNoPath) {
  EXPECT_EQ(*EndpointOf("http://localhost:9000/", "r"), "http://localhost:9000");
  for (const char* const url : {"localhost:9000", "ftp://host", "http://", "https://user:pw@host",
                                "http://host/path", "http://host?x"}) {
    const auto endpoint = EndpointOf(url, "r");
    ASSERT_FALSE(endpoint.ok()) << url;
    EXPECT_EQ(endpoint.error().message.find("pw"), std::string::npos);
  }
}

TEST(S3Test, ReadsTextsOfXml) {
  EXPECT_EQ(XmlText("<a><Code>x &amp;lt; &quot;y&quot;</Code></a>", "Code"), "x &lt; \"y\"");
  EXPECT_EQ(XmlText("<Code>x", "Code"), "");
  EXPECT_EQ(XmlText("</Code><Cod", "Code"), "");
}

// --- the worker ---------------------------------------------------------------------------------

// A corpus in memory, of which each call can be made to fail.
class FakeQueue final : public WorkQueue {
 public:
  std::vector<Claim> waiting, mine;      // mine: of an earlier worker of this name
  std::map<int64_t, std::string> ended;  // "done KEY", "failed CODE", "released"
  std::vector<std::string> announced;
  std::map<std::string, api::Error> errors;  // by the name of the call
  std::atomic<bool> is_lost = false, cannot_renew = false;
  std::atomic<int> renewals = 0;
  bool is_replaced = false;

  api::Result<std::optional<Claim>> Next(bool mine_only, const StopCheck&) override {
    if (errors.count("Next")) return errors["Next"];
    std::vector<Claim>& from = mine_only ? mine : waiting;
    if (from.empty()) return std::optional<Claim>();
    Claim claim = from.front();
    from.erase(from.begin());
    return std::optional<Claim>(claim);
  }
  api::Result<bool> IsAnyLeft(const StopCheck&) override { return !waiting.empty(); }
  api::Result<Recorded> Renew(const Claim&, const StopCheck&) override {
    ++renewals;
    if (cannot_renew) return api::Error{LECTERN_IO_ERROR, "no database", "database"};
    return is_lost ? Recorded::kLost : Recorded::kYes;
  }
  api::Result<Recorded> Announce(const Claim&, const Finished& upload, const StopCheck&) override {
    announced.push_back(upload.key);
    return Record("Announce");
  }
  api::Result<bool> IsReplaced(const Claim&, const std::string&, const StopCheck&) override {
    return is_replaced;
  }
  api::Result<Recorded> Finish(const Claim& claim, const Finished& finished,
                               const StopCheck&) override {
    return Record("Finish", claim, "done " + finished.key);
  }
  api::Result<Recorded> Fail(const Claim& claim, const api::Error& error,
                             const StopCheck&) override {
    return Record("Fail", claim, std::string("failed ") + lectern_code_name(error.code));
  }
  api::Result<Recorded> Release(const Claim& claim, const std::optional<api::Error>& blame,
                                const StopCheck&) override {
    return Record("Release", claim, blame ? "blamed" : "released");
  }

 private:
  api::Result<Recorded> Record(const char* call, const Claim& claim = {}, std::string end = "") {
    if (errors.count(call)) return errors[call];
    if (is_lost) return Recorded::kLost;
    if (!end.empty()) ended[claim.id] = std::move(end);
    return Recorded::kYes;
  }
};

class FakeStore final : public ObjectStore {
 public:
  std::map<std::string, ObjectFacts> objects;
  std::optional<api::Error> put_error;
  std::function<void()> on_put;
  bool forgets = false;  // says that it stores, and does not

  api::Result<api::Done> Put(const std::string& key, const std::string&, const ObjectFacts& facts,
                             const StopCheck&) override {
    if (on_put) on_put();
    if (put_error) return *put_error;
    if (!forgets) objects[key] = facts;
    return api::Done();
  }
  api::Result<std::optional<ObjectFacts>> Head(const std::string& key, const StopCheck&) override {
    const auto found = objects.find(key);
    return found == objects.end() ? std::optional<ObjectFacts>()
                                  : std::optional<ObjectFacts>(found->second);
  }
  api::Result<api::Done> Get(const std::string&, const std::string&, const StopCheck&) override {
    return api::Done();
  }
  api::Result<api::Done> Remove(const std::string& key, const StopCheck&) override {
    objects.erase(key);
    return api::Done();
  }
};

class FakeMaker final : public BundleMaker {
 public:
  std::map<std::string, Made> made;  // by name; else a bundle
  std::function<void()> on_make;
  std::atomic<bool> is_cancelled = false;
  int num_made = 0, num_discarded = 0, num_cleared = 0;

  Made Make(const Claim& claim, const StopCheck&) override {
    ++num_made;
    if (on_make) on_make();
    if (const auto found = made.find(claim.name); found != made.end()) return found->second;
    return {Bundle{.path = "/none",
                   .document = HashText(claim.name).substr(0, 32),
                   .fingerprint = "f",
                   .tokens = 3,
                   .facts = {5, HashText(claim.name)}},
            false};
  }
  void Cancel() override { is_cancelled = true; }
  void Discard(const Claim&) override { ++num_discarded; }
  void DiscardAll() override { ++num_cleared; }
};

class WorkerTest : public testing::Test {
 protected:
  void Add(const std::string& name) {
    queue_.waiting.push_back({.id = static_cast<int64_t>(queue_.waiting.size()) + 1,
                              .attempt = 1,
                              .name = name,
                              .file = "/" + name,
                              .options = "{}"});
  }
  api::Result<api::Done> Run() {
    Worker worker({.queue = queue_,
                   .renewals = queue_,
                   .store = store_,
                   .maker = maker_,
                   .place = {"corpora", "law"},
                   .lease = lease_,
                   .poll = milliseconds(1),
                   .is_interrupted = [this] { return is_interrupted_; },
                   .on_end = [this](const ClaimReport& report) { ends_.push_back(report.end); }});
    auto done = worker.Run();
    totals_ = worker.totals();
    return done;
  }

  FakeQueue queue_;
  FakeStore store_;
  FakeMaker maker_;
  milliseconds lease_{60000};
  bool is_interrupted_ = false;
  std::vector<ClaimEnd> ends_;
  WorkerTotals totals_;
};

TEST_F(WorkerTest, DoesEveryDocumentOnce) {
  for (const char* const name : {"a", "b", "c"}) Add(name);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(totals_.done, 3u);
  EXPECT_EQ(store_.objects.size(), 3u);
  for (const auto& [id, end] : queue_.ended) {
    EXPECT_EQ(store_.objects.count(end.substr(5)), 1u) << end;
  }
  EXPECT_EQ(maker_.num_discarded, 3);
}

TEST_F(WorkerTest, GoesOnWithItsOwnFirstAndThenClearsItsFolder) {
  Add("other");
  queue_.mine = {{.id = 8, .attempt = 2, .name = "own", .file = "/own", .options = "{}"}};
  maker_.on_make = [this] {
    EXPECT_EQ(maker_.num_made == 1, queue_.ended.empty());
    EXPECT_EQ(maker_.num_cleared, maker_.num_made == 1 ? 0 : 1);
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(totals_.done, 2u);
  EXPECT_EQ(maker_.num_cleared, 1);
}

TEST_F(WorkerTest, AnErrorOfADocumentIsRecordedAndTheNextGoesOn) {
  Add("bad"), Add("good");
  maker_.made.insert({"bad", {api::Error{LECTERN_EMPTY_DOCUMENT, "empty", "file"}, true}});
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(queue_.ended[1], "failed empty_document");
  EXPECT_TRUE(queue_.ended[2].starts_with("done "));
}

TEST_F(WorkerTest, AnErrorOfTheMachineGivesTheDocumentBackAndEnds) {
  Add("bad"), Add("good");
  maker_.made.insert({"bad", {api::Error{LECTERN_READ_ONLY, "read-only", ""}, false}});
  EXPECT_EQ(Run().error().code, LECTERN_READ_ONLY);
  EXPECT_EQ(queue_.ended[1], "released");
  EXPECT_EQ(queue_.waiting.size(), 1u);
}

TEST_F(WorkerTest, ADocumentThatFillsTheDiskIsBlamed) {
  Add("large");
  maker_.made.insert({"large", {api::Error{LECTERN_NO_SPACE, "full", ""}, false}});
  EXPECT_EQ(Run().error().code, LECTERN_NO_SPACE);
  EXPECT_EQ(queue_.ended[1], "blamed");
}

TEST_F(WorkerTest, AnUploadThatFailsGivesTheDocumentBack) {
  Add("a");
  store_.put_error = api::Error{LECTERN_IO_ERROR, "503", "bucket"};
  EXPECT_EQ(Run().error().code, LECTERN_IO_ERROR);
  EXPECT_EQ(queue_.ended[1], "released");
}

TEST_F(WorkerTest, IsNotDoneBeforeTheObjectIsThere) {
  Add("a");
  store_.forgets = true;
  EXPECT_EQ(Run().error().code, LECTERN_CHECKSUM_MISMATCH);
  EXPECT_EQ(queue_.ended[1], "released");
}

TEST_F(WorkerTest, AnotherModelIsRefusedBeforeTheUpload) {
  Add("a");
  queue_.waiting[0].fingerprint = "another";
  EXPECT_EQ(Run().error().code, LECTERN_MODEL_MISMATCH);
  EXPECT_TRUE(store_.objects.empty());
  EXPECT_EQ(queue_.ended[1], "released");
}

TEST_F(WorkerTest, TakesOverAWholeUploadWithoutIndexing) {
  Add("a");
  const Finished there = {.document = "d",
                          .key = "law/there",
                          .sha256 = HashText("x"),
                          .bytes = 4,
                          .tokens = 1,
                          .fingerprint = "f"};
  queue_.waiting[0].announced = there;
  queue_.waiting[0].uploads = {"law/older", "law/there"};
  store_.objects["law/there"] = {4, HashText("x")};
  store_.objects["law/older"] = {4, HashText("y")};
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(maker_.num_made, 0);
  EXPECT_EQ(queue_.ended[1], "done law/there");
  EXPECT_EQ(store_.objects.count("law/older"), 0u);
}

TEST_F(WorkerTest, AnUploadThatIsNotWholeIsReplaced) {
  Add("a");
  queue_.waiting[0].announced = Finished{.document = "d",
                                         .key = "law/there",
                                         .sha256 = HashText("x"),
                                         .bytes = 4,
                                         .tokens = 1,
                                         .fingerprint = "f"};
  queue_.waiting[0].uploads = {"law/there"};
  store_.objects["law/there"] = {3, HashText("x")};
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(maker_.num_made, 1);
  EXPECT_EQ(store_.objects.size(), 1u);
  EXPECT_EQ(queue_.ended[1], "done " + store_.objects.begin()->first);
}

TEST_F(WorkerTest, ALostLeaseRecordsNothing) {
  Add("a");
  queue_.is_lost = true;
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(ends_, std::vector{ClaimEnd::kLost});
  EXPECT_TRUE(queue_.ended.empty());
  EXPECT_TRUE(store_.objects.empty());  // not even announced
}

TEST_F(WorkerTest, AnUploadBehindALostLeaseGoesAwayWhenAnotherIsRecorded) {
  for (const bool is_replaced : {false, true}) {
    Add("a");
    queue_.is_lost = false;
    queue_.is_replaced = is_replaced;
    store_.on_put = [this] { queue_.is_lost = true; };
    ASSERT_TRUE(Run().ok());
    EXPECT_EQ(ends_.back(), ClaimEnd::kLost);
    EXPECT_EQ(store_.objects.size(), is_replaced ? 0u : 1u);
  }
}

TEST_F(WorkerTest, TheLeaseIsRenewedAndItsLossCancels) {
  Add("a");
  lease_ = milliseconds(30);
  maker_.on_make = [this] {
    while (queue_.renewals < 3) std::this_thread::sleep_for(milliseconds(1));
    queue_.is_lost = true;
    while (!maker_.is_cancelled) std::this_thread::sleep_for(milliseconds(1));
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(ends_, std::vector{ClaimEnd::kLost});
}

TEST_F(WorkerTest, ADatabaseThatCannotBeReachedForALeaseCostsTheDocument) {
  Add("a");
  lease_ = milliseconds(30);
  queue_.cannot_renew = true;
  maker_.on_make = [this] {
    while (!maker_.is_cancelled) std::this_thread::sleep_for(milliseconds(1));
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(ends_, std::vector{ClaimEnd::kLost});
  EXPECT_TRUE(queue_.ended.empty());
}

TEST_F(WorkerTest, ASignalGivesTheDocumentBackAndKeepsItsCheckpoint) {
  Add("a"), Add("b");
  maker_.on_make = [this] { is_interrupted_ = true; };
  EXPECT_EQ(Run().error().code, LECTERN_CANCELLED);
  EXPECT_EQ(queue_.ended[1], "released");
  EXPECT_EQ(maker_.num_discarded, 0);
  EXPECT_EQ(queue_.waiting.size(), 1u);
}

TEST_F(WorkerTest, ADatabaseThatFailsEndsTheWorker) {
  for (const char* const call : {"Next", "Announce", "Finish"}) {
    queue_.errors = {{call, {LECTERN_IO_ERROR, "no database", "database"}}};
    queue_.waiting.clear();
    Add("a");
    EXPECT_EQ(Run().error().code, LECTERN_IO_ERROR) << call;
  }
}

}  // namespace
}  // namespace lectern::batch
