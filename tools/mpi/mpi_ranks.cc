// The ranks of an MPI job as a Communicator: liblectern_mpi.so.1, which the tools load where mpirun
// started them. So neither the engine nor a tool depends on MPI.
#include <mpi.h>

#include <climits>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>

#include "engine/ranks/communicator.h"
#include "index/lookup_share.h"

namespace lectern {
namespace {

// MPI counts by int, which ends at 2 GiB: larger messages go in pieces of this size.
constexpr size_t kPieceBytes = size_t{1} << 30;

// MPI's errors end all processes of the job (MPI_ERRORS_ARE_FATAL, the default): what one rank
// would do after another one died is to end, too.
class MpiRanks final : public Communicator {
 public:
  MpiRanks() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    int number = 0;
    MPI_Comm_rank(comm_, &number);
    rank_ = static_cast<uint32_t>(number);
    MPI_Comm_size(comm_, &number);
    size_ = static_cast<uint32_t>(number);
    MPI_Op_create(&AddLogsOp, /*commute=*/1, &add_logs_);
    // Merges depend on their order to the last bit, so it is fixed.
    MPI_Op_create(&JoinRowsOp, /*commute=*/0, &join_rows_);
  }
  ~MpiRanks() override {
    MPI_Op_free(&add_logs_);
    MPI_Op_free(&join_rows_);
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }

  Status Broadcast(std::vector<std::byte>& message) override {
    uint64_t bytes = message.size();
    MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, comm_);
    message.resize(bytes);
    for (size_t begin = 0; begin < bytes; begin += kPieceBytes) {
      MPI_Bcast(message.data() + begin, PieceOf(bytes, begin), MPI_BYTE, 0, comm_);
    }
    Count(rank_ == 0 ? bytes : 0);
    return {};
  }

  // MPI advises that an all-reduction gives all ranks the same bits, and Open MPI's algorithms do.
  Status Sum(std::span<double> numbers) override {
    MPI_Allreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(numbers.size()), MPI_DOUBLE,
                  MPI_SUM, comm_);
    Count(numbers.size_bytes());
    return {};
  }

  Status AddLogs(std::span<float> numbers) override {
    MPI_Allreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(numbers.size()), MPI_FLOAT,
                  add_logs_, comm_);
    Count(numbers.size_bytes());
    return {};
  }

  Status JoinAtFirst(std::span<float> rows, size_t row_floats) override {
    MPI_Datatype row;
    MPI_Type_contiguous(static_cast<int>(row_floats), MPI_FLOAT, &row);
    MPI_Type_commit(&row);
    const auto count = static_cast<int>(rows.size() / row_floats);
    if (rank_ == 0) {
      MPI_Reduce(MPI_IN_PLACE, rows.data(), count, row, join_rows_, 0, comm_);
    } else {
      MPI_Reduce(rows.data(), nullptr, count, row, join_rows_, 0, comm_);
    }
    MPI_Type_free(&row);
    Count(rows.size_bytes());
    return {};
  }

  Status Gather(uint32_t at, std::span<const std::byte> own, std::vector<std::byte>& all,
                std::vector<size_t>& sizes) override {
    const bool is_wanted = at == kAll || rank_ == at;
    const uint64_t bytes = own.size();
    std::vector<uint64_t> of_ranks(size_);
    MPI_Allgather(&bytes, 1, MPI_UINT64_T, of_ranks.data(), 1, MPI_UINT64_T, comm_);
    const uint64_t total = std::accumulate(of_ranks.begin(), of_ranks.end(), uint64_t{0});
    // All ranks see the same sizes, so that all return here.
    if (total > INT_MAX) {
      return {Code::kLimitExceeded, "the ranks' parts of a layer are more than 2 GiB"};
    }
    std::vector<int> counts(of_ranks.begin(), of_ranks.end()), begins(size_, 0);
    std::partial_sum(counts.begin(), counts.end() - 1, begins.begin() + 1);
    all.resize(is_wanted ? total : 0);
    sizes.assign(is_wanted ? of_ranks.begin() : of_ranks.end(), of_ranks.end());
    if (at == kAll) {
      MPI_Allgatherv(own.data(), counts[rank_], MPI_BYTE, all.data(), counts.data(), begins.data(),
                     MPI_BYTE, comm_);
    } else {
      MPI_Gatherv(own.data(), counts[rank_], MPI_BYTE, all.data(), counts.data(), begins.data(),
                  MPI_BYTE, static_cast<int>(at), comm_);
    }
    Count(bytes);
    return {};
  }

  Status PassOn(std::vector<std::byte>& bytes) override {
    const auto next = static_cast<int>((rank_ + 1) % size_);
    const auto previous = static_cast<int>((rank_ + size_ - 1) % size_);
    const uint64_t sent = bytes.size();
    uint64_t received = 0;
    MPI_Sendrecv(&sent, 1, MPI_UINT64_T, next, 0, &received, 1, MPI_UINT64_T, previous, 0, comm_,
                 MPI_STATUS_IGNORE);
    std::vector<std::byte> other(received);
    for (size_t begin = 0; begin < std::max(sent, received); begin += kPieceBytes) {
      const size_t from = std::min<size_t>(begin, sent), to = std::min<size_t>(begin, received);
      MPI_Sendrecv(bytes.data() + from, PieceOf(sent, from), MPI_BYTE, next, 0, other.data() + to,
                   PieceOf(received, to), MPI_BYTE, previous, 0, comm_, MPI_STATUS_IGNORE);
    }
    bytes = std::move(other);
    Count(sent);
    return {};
  }

  void Abort() override {
    MPI_Abort(comm_, EXIT_FAILURE);
    std::abort();  // MPI_Abort does not return
  }

  Traffic traffic() const override { return traffic_; }

 private:
  static int PieceOf(size_t bytes, size_t begin) {
    return static_cast<int>(std::min(kPieceBytes, bytes - begin));
  }
  void Count(uint64_t bytes) {
    traffic_.bytes += bytes;
    ++traffic_.calls;
  }

  static void AddLogsOp(void* from, void* into, int* count, MPI_Datatype* /*type*/) {
    const float* const other = static_cast<const float*>(from);
    float* const sums = static_cast<float*>(into);
    for (int i = 0; i < *count; ++i) sums[i] = LogAddExp(other[i], sums[i]);
  }
  // Reduces "from op into": `from` is of the lower rank. The joined rows go into `into`.
  static void JoinRowsOp(void* from, void* into, int* count, MPI_Datatype* type) {
    int bytes = 0;
    MPI_Type_size(*type, &bytes);
    const size_t row_floats = static_cast<size_t>(bytes) / sizeof(float);
    const size_t floats = row_floats * static_cast<size_t>(*count);
    std::vector<float> lower(static_cast<const float*>(from),
                             static_cast<const float*>(from) + floats);
    JoinPartialRows({static_cast<const float*>(into), floats}, lower, row_floats);
    std::copy(lower.begin(), lower.end(), static_cast<float*>(into));
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Op add_logs_ = MPI_OP_NULL, join_rows_ = MPI_OP_NULL;
  uint32_t rank_ = 0, size_ = 1;
  Traffic traffic_;
};

}  // namespace
}  // namespace lectern

// Joins the job that mpirun started; once a process. Several threads may call what it returns, one
// at a time. Returns why it cannot, or "".
extern "C" __attribute__((visibility("default"))) const char* lectern_mpi_join(
    std::shared_ptr<lectern::Communicator>* ranks) {
  int threads = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS ||
      threads < MPI_THREAD_SERIALIZED) {
    return "MPI does not start with threads that take turns (MPI_THREAD_SERIALIZED)";
  }
  *ranks = std::make_shared<lectern::MpiRanks>();
  return "";
}
