// The work queue of a corpus in PostgreSQL: one row a document, claimed and ended by conditional
// updates.
#ifndef LECTERN_TOOLS_BATCH_POSTGRES_QUEUE_H_
#define LECTERN_TOOLS_BATCH_POSTGRES_QUEUE_H_

#include <memory>
#include <string>

#include "tools/batch/postgres_connection.h"
#include "tools/batch/work_queue.h"

namespace lectern::batch {

struct QueueOptions {
  std::string corpus;        // BucketPlace::Text
  std::string worker;        // WorkerName
  double lease_seconds = 0;  // above 0
  int max_deaths = 3;        // workers that may die at a document before it counts as failed
};

class PostgresQueue final : public WorkQueue {
 public:
  PostgresQueue(std::unique_ptr<PostgresConnection> connection, const QueueOptions& options);

  api::Result<std::optional<Claim>> Next(bool mine_only, const StopCheck& stop) override;
  api::Result<bool> IsAnyLeft(const StopCheck& stop) override;
  api::Result<Recorded> Renew(const Claim& claim, const StopCheck& stop) override;
  api::Result<Recorded> Announce(const Claim& claim, const Finished& upload,
                                 const StopCheck& stop) override;
  api::Result<bool> IsReplaced(const Claim& claim, const std::string& key,
                               const StopCheck& stop) override;
  api::Result<Recorded> Finish(const Claim& claim, const Finished& finished,
                               const StopCheck& stop) override;
  api::Result<Recorded> Fail(const Claim& claim, const api::Error& error,
                             const StopCheck& stop) override;
  api::Result<Recorded> Release(const Claim& claim, const std::optional<api::Error>& blame,
                                const StopCheck& stop) override;

 private:
  // Runs an update that returns a row if it applied, or had applied before.
  api::Result<Recorded> Record(const char* statement, const Row& parameters, const StopCheck& stop);
  api::Result<api::Done> FailDeserted(const StopCheck& stop);

  const std::unique_ptr<PostgresConnection> connection_;
  const QueueOptions options_;
};

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_POSTGRES_QUEUE_H_
