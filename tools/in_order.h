// Does several pieces of work at the same time, such as the questions of a file, and hands out
// their results in order.
#ifndef LECTERN_TOOLS_IN_ORDER_H_
#define LECTERN_TOOLS_IN_ORDER_H_

#include <cstddef>
#include <functional>

namespace lectern::tools {

// Calls run(i, is_alone) for each i below `count`, up to `most_at_once` (at least 1) at a time,
// each on one of as many threads, in ascending order; and give(i) on the calling thread, in
// ascending order, each after run(i) returned true.
//
// run returns false where there was no room beside the others (memory, say): it is then called
// again for the same i, and from then on no more calls run at a time than ran beside it, or one
// where none did. With `is_alone` no other one runs, and what it returns does not matter. give
// returns false to end all: no run begins any more, those that are running are waited for, and
// nothing else is given out.
//
// Rethrows the first exception of run or give, after all running calls have returned. Throws
// std::system_error where not even one thread can be started.
void RunInOrder(size_t count, size_t most_at_once,
                const std::function<bool(size_t i, bool is_alone)>& run,
                const std::function<bool(size_t i)>& give);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_IN_ORDER_H_
