// The interface by which the processes of a group ("ranks") talk to each other. MPI is one
// implementation (tools/mpi/); threads of one process are another, in tests.
#ifndef LECTERN_ENGINE_RANKS_COMMUNICATOR_H_
#define LECTERN_ENGINE_RANKS_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/status.h"

namespace lectern {

// All ranks call the same functions in the same order, each from one thread at a time; every call
// waits for the ranks that it depends on. Array sizes are equal on all ranks unless said otherwise
// (unchecked). An error means that the group is lost: nothing more can be called. MPI ends all
// processes of the group instead, if one of them dies.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual uint32_t rank() const = 0;  // below size(); the first one, 0, leads
  virtual uint32_t size() const = 0;

  // Gives all ranks the first one's message, whatever size it has.
  virtual Status Broadcast(std::vector<std::byte>& message) = 0;
  // Replaces each number by its sum over all ranks, or by the log of the sum of its exponentials.
  // All ranks get the same bits.
  virtual Status Sum(std::span<double> numbers) = 0;
  virtual Status AddLogs(std::span<float> numbers) = 0;
  // Joins rows of partial attention (JoinPartialRows) of all ranks in those of the first rank; the
  // others' hold anything afterwards.
  virtual Status JoinAtFirst(std::span<float> rows, size_t row_floats) = 0;
  // Collects the bytes of all ranks, which may differ in size, in the order of the ranks: at rank
  // `at`, or at all of them; elsewhere `all` and `sizes` [ranks] become empty. kLimitExceeded, on
  // all ranks: together they are more than 2 GiB.
  static constexpr uint32_t kAll = UINT32_MAX;
  virtual Status Gather(uint32_t at, std::span<const std::byte> own, std::vector<std::byte>& all,
                        std::vector<size_t>& sizes) = 0;
  // Sends bytes to the next rank (the last one's next is the first) and receives the previous
  // rank's, which replace them and may differ in size.
  virtual Status PassOn(std::vector<std::byte>& bytes) = 0;

  // Ends all processes of the group: this one cannot keep the order of calls any more, and the
  // others would wait for it for ever.
  [[noreturn]] virtual void Abort() = 0;

  // Bytes that this rank has given to the calls above, and the number of calls.
  struct Traffic {
    uint64_t bytes = 0, calls = 0;
  };
  virtual Traffic traffic() const = 0;
};

// A row of partial attention: these numbers, then the output, not yet divided by its sum.
struct PartialRow {
  float max, sum;      // as in AttentionState
  float read_lse;      // OwnRows::read_lse
  float unread_bound;  // HeadSelection::unread_bound; -inf where no bound is wanted
};
inline constexpr size_t kPartialRowFloats = sizeof(PartialRow) / sizeof(float);

// Adds rows of partial attention to others: joins states as MergeStates does, and adds the masses
// of the two logarithms. `from` and `into` [rows][row_floats], with row_floats = kPartialRowFloats
// + head_dim.
void JoinPartialRows(std::span<const float> from, std::span<float> into, size_t row_floats);

}  // namespace lectern

#endif  // LECTERN_ENGINE_RANKS_COMMUNICATOR_H_
