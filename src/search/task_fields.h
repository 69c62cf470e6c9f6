// The fields of a task by name: read from experiment files and from programs, written back as the
// record of what ran.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "search/task.h"

namespace infercast {

// Nothing, truth, integer, number, text, list of integers, list of texts.
using FieldValue = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                                std::vector<std::int64_t>, std::vector<std::string>>;

struct TaskField {
  std::string_view name;
  FieldValue (*get)(const Task& task);
  // kInvalidArgument for a value of the wrong type or outside its domain, kUnknownName for an
  // unknown word.
  Status (*set)(Task& task, const FieldValue& value, std::string_view name);
};

// All fields, in the order in which they are written.
std::span<const TaskField> TaskFields();
const TaskField* FindTaskField(std::string_view name);

// A field as somebody wrote it.
struct SourceField {
  std::string name;
  FieldValue value;
  int line = 0;  // of its file, from 1; 0: it stands in none
};

// "line 7: ", or nothing for a field that stands in no file.
std::string AtLine(int line);

// Sets fields by name. kInvalidArgument lists all names that are no field, with the line of each
// and what may have been meant; otherwise the error of the first value that cannot be taken, with
// its line, and then those of all others.
Status SetTaskFields(Task& task, std::span<const SourceField> fields);

}  // namespace infercast
