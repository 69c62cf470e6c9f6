// What the parts of the Python module share: errors, and records whose fields are listed once.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "infercast/infercast.hpp"

namespace infercast::python {

namespace nb = nanobind;
using namespace nb::literals;

// Raises the Python exception of the error's kind (infercast.errors).
[[noreturn]] void Raise(const Error& error);

template <typename T>
T OrRaise(Result<T> result) {
  if (!result) Raise(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Settings from keyword arguments: None is left out, lists are joined.
NamedOptions OptionsOf(const nb::kwargs& settings);

// A class of read-only fields. Their names stand in `__match_args__`, from which repr and to_dict
// are made.
template <typename T>
class Record {
 public:
  Record(nb::module_& m, const char* name, const char* doc) : class_(m, name, doc) {
    class_.def("__repr__", [](nb::handle self) {
      return nb::module_::import_("infercast._records").attr("represent")(self);
    });
    class_.def(
        "to_dict",
        [](nb::handle self) {
          return nb::module_::import_("infercast._records").attr("to_dict")(self);
        },
        "The fields as a dict; records within it become dicts as well.");
  }
  ~Record() { class_.attr("__match_args__") = nb::tuple(names_); }

  template <typename F>
  Record& Field(const char* name, F T::* field, const char* doc) {
    class_.def_ro(name, field, doc);
    names_.append(nb::str(name));
    return *this;
  }
  nb::class_<T>& cls() { return class_; }

 private:
  nb::class_<T> class_;
  nb::list names_;
};

void BindEngine(nb::module_& m);
void BindForecast(nb::module_& m);
void BindOnline(nb::module_& m);

}  // namespace infercast::python
