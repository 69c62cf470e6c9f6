// What the files of the C interface share: handles, tables, and the way errors get out.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "infercast.h"
#include "infercast/infercast.hpp"

struct infercast_options {
  infercast::v1::NamedOptions named;
};
struct infercast_engine {
  infercast::v1::Engine engine;
};
struct infercast_online {
  infercast::v1::OnlineModel model;
};
struct infercast_table {
  using Cell = std::variant<std::monostate, double, std::string>;
  struct Row {
    std::vector<Cell> cells;
    std::vector<std::string> texts;  // of numbers, filled when the table is finished
  };
  std::vector<std::string> columns;
  std::vector<Row> rows;

  // Adds the cells of one row, by column.
  void Add(const std::vector<std::pair<std::string, Cell>>& cells);
  void Finish();
};

namespace infercast::v1::internal {

// Remembers the error for this thread.
infercast_status Fail(const Error& error) noexcept;

// Runs the body (-> infercast_status); what is thrown becomes a status.
template <typename Body>
infercast_status AtBorder(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::exception& e) {
    try {
      return Fail({ErrorKind::kInternal, e.what()});
    } catch (...) {
      return INFERCAST_INTERNAL;
    }
  } catch (...) {
    return INFERCAST_INTERNAL;
  }
}

inline infercast_status NullArgument(const char* what) noexcept {
  return AtBorder(
      [&] { return Fail({ErrorKind::kInvalidArgument, std::string(what) + " is NULL"}); });
}

// Hands out a finished table.
infercast_status Give(infercast_table table, infercast_table** out);

inline const char* OrEmpty(const char* text) { return text != nullptr ? text : ""; }

}  // namespace infercast::v1::internal
