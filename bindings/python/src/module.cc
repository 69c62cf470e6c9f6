// The module infercast._core.
#include "binding.h"

namespace infercast::python {

void Raise(const Error& error) {
  const nb::module_ errors = nb::module_::import_("infercast.errors");
  const std::string kind(ToString(error.kind));
  const nb::object type = errors.attr("of_kind")(kind);
  PyErr_SetObject(type.ptr(), nb::str(error.message.c_str()).ptr());
  throw nb::python_error();
}

namespace {

std::string TextOf(nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value) ? "true" : "false";
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    std::string text;
    for (const nb::handle item : value) {
      if (!text.empty()) text += ',';
      text += TextOf(item);
    }
    return text;
  }
  return nb::cast<std::string>(nb::str(value));
}

}  // namespace

NamedOptions OptionsOf(const nb::kwargs& settings) {
  NamedOptions options;
  for (const auto& [name, value] : settings) {
    if (value.is_none()) continue;
    OrRaise(options.Set(nb::cast<std::string>(name), TextOf(value)));
  }
  return options;
}

}  // namespace infercast::python

NB_MODULE(_core, m) {
  using namespace infercast::python;
  using infercast::PerfDatabase;
  m.doc() = "The compiled part of infercast.";
  m.def("version", &infercast::Version, "Version of the library.");
  m.def("option_names", &infercast::NamedOptions::Names, "Names of all settings, sorted.");
  m.def(
      "systems", [](const std::string& paths) { return OrRaise(PerfDatabase::Systems(paths)); },
      "systems_paths"_a = "", "Names of all GPU systems, sorted.");
  m.def(
      "versions",
      [](const std::string& system, const std::string& backend, const std::string& paths) {
        return OrRaise(PerfDatabase::Versions(system, backend, paths));
      },
      "system"_a, "backend"_a, "systems_paths"_a = "",
      "Versions of a backend that may be asked for on a system, oldest first.");
  m.def(
      "models", [](const std::string& paths) { return OrRaise(PerfDatabase::Models(paths)); },
      "systems_paths"_a = "", "\"organisation/model\" of every bundled configuration, sorted.");
  BindEngine(m);
  BindForecast(m);
  BindOnline(m);
}
