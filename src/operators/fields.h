// Declarative field lists: each wire struct lists its members once, and JSON and binary encoding
// both walk that list, so the two forms cannot drift apart.
#pragma once

#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

namespace infercast {

// A member of wire struct S. Optional members take the value of S's member initialiser when a JSON
// object lacks them; the binary form always carries every member.
template <typename S, typename T>
struct Field {
  std::string_view name;
  T S::* member;
  bool required;
};

template <typename S, typename T>
constexpr Field<S, T> Required(std::string_view name, T S::* member) {
  return {name, member, true};
}
template <typename S, typename T>
constexpr Field<S, T> Defaulted(std::string_view name, T S::* member) {
  return {name, member, false};
}

// A heap-allocated value with value semantics, for recursive structs.
template <typename T>
class Box {
 public:
  Box() = default;
  Box(T value) : value_(std::make_unique<T>(std::move(value))) {}  // NOLINT
  Box(const Box& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Box(Box&&) noexcept = default;
  Box& operator=(const Box& other) {
    value_ = other.value_ ? std::make_unique<T>(*other.value_) : nullptr;
    return *this;
  }
  Box& operator=(Box&&) noexcept = default;
  ~Box() = default;
  const T& operator*() const { return *value_; }
  T& operator*() { return *value_; }
  const T* operator->() const { return value_.get(); }
  explicit operator bool() const { return value_ != nullptr; }
  bool operator==(const Box& other) const {
    if (!value_ || !other.value_) return !value_ && !other.value_;
    return *value_ == *other.value_;
  }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace infercast
