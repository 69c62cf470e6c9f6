#include "search/support_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>

#include "base/files.h"

namespace infercast {
namespace {

// Comma-separated values with quoted fields, which may hold commas, doubled quotes and line breaks.
std::vector<std::vector<std::string>> CsvRows(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string field;
  bool quoted = false, any = false;
  const auto end_field = [&] {
    row.push_back(std::move(field));
    field.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field += '"';
        ++i;
      } else {
        quoted = false;
      }
      continue;
    }
    any = true;
    if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      end_field();
    } else if (c == '\n') {
      end_field();
      rows.push_back(std::move(row));
      row.clear();
      any = false;
    } else if (c != '\r') {
      field += c;
    }
  }
  if (any) {
    end_field();
    rows.push_back(std::move(row));
  }
  return rows;
}

// The last line of a message whose line breaks are written as "\n".
std::string LastLine(std::string text) {
  for (std::size_t at = text.find("\\n"); at != text.npos; at = text.find("\\n", at)) {
    text.replace(at, 2, "\n");
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::int64_t GpusOf(const std::string& command) {
  constexpr std::string_view kFlag = "--total-gpus ";
  const std::size_t at = command.find(kFlag);
  std::int64_t gpus = SupportQuestion().total_gpus;
  if (at != command.npos) {
    const char* from = command.data() + at + kFlag.size();
    std::from_chars(from, command.data() + command.size(), gpus);
  }
  return gpus;
}

std::string Shortened(std::string text) {
  constexpr std::size_t kLongest = 150;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

// Names of Python modules say nothing to a reader of a difference.
std::string WithoutModules(std::string text) {
  const std::size_t colon = text.find(": ");
  const std::size_t dot = text.rfind('.', colon);
  if (colon != text.npos && dot != text.npos && text.find(' ') > colon) text.erase(0, dot + 1);
  return text;
}

// Without the names that the question itself has, and without which role and which alternatives:
// what is left is the kind of reason.
std::string WithoutSubject(std::string text, const SupportQuestion& question) {
  const auto replace = [&](const std::string& name, std::string_view by) {
    if (name.empty()) return;
    for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + by.size())) {
      text.replace(at, name.size(), by);
    }
  };
  replace(question.model, "the model");
  replace(question.system, "the system");
  replace(question.version.value_or(""), "the version");
  replace(std::string(ToString(question.backend)) + " ", "the backend ");
  for (const std::string_view role : {"prefill workers: ", "decode workers: "}) {
    if (text.starts_with(role)) text.erase(0, role.size());
  }
  return text.substr(0, text.find("; measured: "));
}

}  // namespace

std::string GeneralForm(std::string_view message) {
  std::string form;
  for (std::size_t i = 0; i < message.size();) {
    const char c = message[i];
    if (c == '\'' || c == '"') {
      const std::size_t end = message.find(c, i + 1);
      if (end != message.npos) {
        form += "…";
        i = end + 1;
        continue;
      }
    }
    const bool digit = c >= '0' && c <= '9';
    if (digit) {
      while (i < message.size() &&
             ((message[i] >= '0' && message[i] <= '9') || message[i] == '.')) {
        ++i;
      }
      form += "N";
      continue;
    }
    form += c;
    ++i;
  }
  // Lists of quoted names.
  for (std::size_t at = form.find("…, …"); at != form.npos; at = form.find("…, …")) {
    form.erase(at, std::string_view("…, ").size());
  }
  return form;
}

Result<std::vector<PublishedSupport>> ParsePublishedSupport(std::string_view csv,
                                                            const std::string& name) {
  const auto rows = CsvRows(csv);
  if (rows.empty()) return std::vector<PublishedSupport>{};
  const auto column = [&](std::string_view title) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(rows.front(), title);
    if (found == rows.front().end()) return std::nullopt;
    return static_cast<std::size_t>(found - rows.front().begin());
  };
  const auto model = column("HuggingFaceID"), system = column("System"),
             backend = column("Backend"), version = column("Version"), mode = column("Mode"),
             status = column("Status"), error = column("ErrMsg"), command = column("Command");
  if (!model || !system || !backend || !version || !mode || !status) {
    return Fail(ErrorKind::kCorruptData,
                fmt::format("{}: a support matrix has the columns HuggingFaceID, System, Backend, "
                            "Version, Mode and Status",
                            name));
  }
  std::vector<PublishedSupport> published;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::vector<std::string>& row = rows[i];
    if (row.size() != rows.front().size()) {
      return Fail(ErrorKind::kCorruptData,
                  fmt::format("{}: row {} has {} fields instead of {}", name, i + 1, row.size(),
                              rows.front().size()));
    }
    const std::optional<Backend> which = ParseEnum<Backend>(row[*backend]);
    const std::optional<ServingMode> how = ParseEnum<ServingMode>(row[*mode]);
    if (!which || !how) continue;
    PublishedSupport entry;
    entry.question.model = row[*model];
    entry.question.system = row[*system];
    entry.question.backend = *which;
    entry.question.version = row[*version];
    if (command) entry.question.total_gpus = GpusOf(row[*command]);
    entry.mode = *how;
    entry.status = row[*status];
    if (error) entry.error = WithoutModules(LastLine(row[*error]));
    published.push_back(std::move(entry));
  }
  return published;
}

Result<std::vector<PublishedSupport>> ReadPublishedSupport(
    const std::filesystem::path& systems_root) {
  std::vector<std::filesystem::path> files;
  std::error_code code;
  for (const auto& entry :
       std::filesystem::directory_iterator(systems_root / "support_matrix", code)) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<PublishedSupport> all;
  for (const std::filesystem::path& file : files) {
    IC_ASSIGN(const std::string text, ReadTextFile(file));
    IC_ASSIGN(std::vector<PublishedSupport> rows, ParsePublishedSupport(text, file.string()));
    all.insert(all.end(), std::make_move_iterator(rows.begin()),
               std::make_move_iterator(rows.end()));
  }
  return all;
}

SupportComparison CompareSupport(std::span<const PublishedSupport> published,
                                 std::span<const SupportAnswer> answers) {
  std::map<SupportQuestion, const SupportAnswer*> by_question;
  for (const SupportAnswer& answer : answers) by_question[answer.question] = &answer;
  SupportComparison comparison;
  std::map<std::string, SupportComparison::Difference> differences;
  for (const PublishedSupport& row : published) {
    const auto found = by_question.find(row.question);
    const ModeSupport* ours = nullptr;
    if (found != by_question.end()) {
      ours = row.mode == ServingMode::kAggregated ? &found->second->aggregated
                                                  : &found->second->disaggregated;
    }
    if (ours == nullptr || ours->kind == SupportKind::kNotAsked) {
      ++comparison.not_asked;
      continue;
    }
    ++comparison.rows;
    if (row.measured()) ++comparison.published_pass;
    const bool measured = ours->kind == SupportKind::kMeasured;
    // A refusal that names a reason is no contradiction of an estimate, nor is an estimate one of
    // it: the published matrix tries estimates for few rows only.
    const bool agrees = row.measured()    ? measured
                        : row.estimated() ? ours->kind == SupportKind::kEstimated
                                          : !measured;
    if (agrees) {
      ++comparison.agreed;
      if (row.measured()) ++comparison.agreed_pass;
      continue;
    }
    const auto general = [&](const std::string& message) {
      return Shortened(GeneralForm(WithoutSubject(message, row.question)));
    };
    std::string kind;
    if (measured) {
      kind = fmt::format("published as {}{}; answered from measurements here", row.status,
                         row.error.empty() ? "" : " (" + general(row.error) + ")");
    } else {
      kind = fmt::format("published as {}; {} here: {}", row.status,
                         ours->kind == SupportKind::kEstimated ? "estimated" : "not answered",
                         ours->missing ? general(ours->missing->message) : "");
    }
    SupportComparison::Difference& difference = differences[kind];
    difference.kind = kind;
    if (difference.count++ == 0) {
      difference.example =
          fmt::format("{} {} {} {} {}", row.question.model, row.question.system,
                      ToString(row.question.backend), *row.question.version, ToString(row.mode));
    }
  }
  for (auto& [kind, difference] : differences) {
    comparison.differences.push_back(std::move(difference));
  }
  std::ranges::stable_sort(comparison.differences, std::ranges::greater{},
                           &SupportComparison::Difference::count);
  return comparison;
}

}  // namespace infercast
