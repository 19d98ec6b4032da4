// Borrows a callable for the duration of a call, without allocating: std::function_ref of C++26,
// for functions here that take a body (ThreadPool::ParallelFor).
#ifndef LECTERN_KERNELS_FUNCTION_REF_H_
#define LECTERN_KERNELS_FUNCTION_REF_H_

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace lectern {

template <typename Signature>
class FunctionRef;

// Never empty. The callable that it was made from must outlive every call.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<R, F&, Args...>) FunctionRef(F&& f)  // NOLINT: as std::function
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return static_cast<R>(std::invoke(*static_cast<std::remove_reference_t<F>*>(object),
                                            std::forward<Args>(args)...));
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void* object, Args... args);
};

}  // namespace lectern

#endif  // LECTERN_KERNELS_FUNCTION_REF_H_
