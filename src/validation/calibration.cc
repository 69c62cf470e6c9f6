#include "validation/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace infercast {

namespace {

using nlohmann::ordered_json;

double Median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::ranges::sort(v);
  const std::size_t n = v.size();
  return n % 2 == 1 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

// exp of the shrunk median of log ratios; 1 for none.
double FactorOf(std::vector<double> logs) {
  const double n = static_cast<double>(logs.size());
  return std::exp(Median(std::move(logs)) * n / (n + 1));
}

std::optional<double> LogRatio(double measured, double predicted) {
  if (!(measured > 0 && predicted > 0)) return std::nullopt;
  return std::log(measured / predicted);
}

double Mean(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return v.empty() ? 0 : sum / static_cast<double>(v.size());
}

using Families = std::map<CalibrationFamily, std::vector<std::size_t>>;

Families Group(const std::vector<CalibrationSample>& samples) {
  Families families;
  for (std::size_t i = 0; i < samples.size(); ++i) families[samples[i].family].push_back(i);
  return families;
}

FactorPair Fit(const std::vector<CalibrationSample>& samples,
               const std::vector<std::size_t>& members, std::optional<std::size_t> without = {}) {
  std::vector<double> ttft, tpot;
  for (const std::size_t i : members) {
    if (without == i) continue;
    const CalibrationSample& s = samples[i];
    if (const auto log = LogRatio(s.measured_ttft, s.predicted_ttft)) ttft.push_back(*log);
    if (const auto log = LogRatio(s.measured_tpot, s.predicted_tpot)) tpot.push_back(*log);
  }
  return {FactorOf(std::move(ttft)), FactorOf(std::move(tpot))};
}

constexpr double kScopeFactor = 2;

std::string OutOfScope(const char* what, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value <= 0) return {};
  const double v = static_cast<double>(value);
  if (v >= static_cast<double>(low) / kScopeFactor &&
      v <= static_cast<double>(high) * kScopeFactor) {
    return {};
  }
  return fmt::format("{} {} is more than a factor of {} beyond the calibrated {} to {}", what,
                     value, kScopeFactor, low, high);
}

Result<double> PositiveNumber(const ordered_json& j, const char* key) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_number() || !(it->get<double>() > 0)) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("calibration profile: '{}' must be a number above 0", key));
  }
  return it->get<double>();
}

std::string TextOf(const ordered_json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::int64_t WholeOf(const ordered_json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
}

}  // namespace

std::string CalibrationFamily::Text() const {
  std::string text = fmt::format("{} on {} with {}", model, system, backend);
  if (!version.empty()) text += " " + version;
  if (!precision.empty()) text += ", " + precision;
  if (mode != "agg") text += ", " + mode;
  if (!source.empty()) text += ", measured by " + source;
  return text;
}

CalibrationProfile Calibrate(const std::vector<CalibrationSample>& samples) {
  return Calibrate(samples, LeaveOneOutFactors(samples));
}

CalibrationProfile Calibrate(const std::vector<CalibrationSample>& samples,
                             std::span<const FactorPair> left_out) {
  CalibrationProfile profile;
  for (const auto& [family, members] : Group(samples)) {
    CalibrationFactor f;
    f.family = family;
    const FactorPair pair = Fit(samples, members);
    f.ttft = pair.ttft;
    f.tpot = pair.tpot;
    f.points = static_cast<std::int64_t>(members.size());
    std::vector<double> ttft, tpot;
    bool first = true;
    for (const std::size_t i : members) {
      const CalibrationSample& s = samples[i];
      const auto widen = [&](std::int64_t v, std::int64_t& low, std::int64_t& high) {
        low = first ? v : std::min(low, v);
        high = first ? v : std::max(high, v);
      };
      widen(s.isl, f.min_isl, f.max_isl);
      widen(s.osl, f.min_osl, f.max_osl);
      widen(s.concurrency, f.min_concurrency, f.max_concurrency);
      first = false;
      if (s.measured_ttft > 0) {
        ttft.push_back(100 * std::abs(s.predicted_ttft * left_out[i].ttft / s.measured_ttft - 1));
      }
      if (s.measured_tpot > 0) {
        tpot.push_back(100 * std::abs(s.predicted_tpot * left_out[i].tpot / s.measured_tpot - 1));
      }
    }
    if (members.size() > 1) {
      f.left_one_out =
          CalibrationFactor::Confidence{Median(ttft), Mean(ttft), Median(tpot), Mean(tpot)};
    }
    profile.factors.push_back(std::move(f));
  }
  return profile;
}

std::vector<FactorPair> LeaveOneOutFactors(const std::vector<CalibrationSample>& samples) {
  std::vector<FactorPair> out(samples.size());
  for (const auto& [family, members] : Group(samples)) {
    for (const std::size_t i : members) out[i] = Fit(samples, members, i);
  }
  return out;
}

const CalibrationFactor* FindFactor(const CalibrationProfile& profile,
                                    const CalibrationQuery& query, std::string* why) {
  const auto say = [&](std::string text) {
    if (why != nullptr) *why = std::move(text);
    return nullptr;
  };
  const CalibrationFactor* found = nullptr;
  for (const CalibrationFactor& f : profile.factors) {
    const CalibrationFamily &a = f.family, &b = query.family;
    const auto open = [](const std::string& asked, const std::string& known) {
      return asked.empty() || asked == known;
    };
    if (a.backend != b.backend || a.system != b.system || a.model != b.model || a.mode != b.mode ||
        !open(b.precision, a.precision) || !open(b.version, a.version) ||
        !open(b.source, a.source)) {
      continue;
    }
    if (found != nullptr) {
      return say(fmt::format("several calibrated families fit {}: give its precision and version",
                             query.family.Text()));
    }
    found = &f;
  }
  if (found == nullptr) return say("not calibrated for " + query.family.Text());
  for (const std::string& reason :
       {OutOfScope("input length", query.isl, found->min_isl, found->max_isl),
        OutOfScope("output length", query.osl, found->min_osl, found->max_osl),
        OutOfScope("concurrency", query.concurrency, found->min_concurrency,
                   found->max_concurrency)}) {
    if (!reason.empty()) return say("calibration not applied: " + reason);
  }
  return found;
}

std::string ProfileToJson(const CalibrationProfile& profile) {
  ordered_json factors = ordered_json::array();
  for (const CalibrationFactor& f : profile.factors) {
    ordered_json j = {{"backend", f.family.backend},
                      {"system", f.family.system},
                      {"model", f.family.model},
                      {"precision", f.family.precision},
                      {"version", f.family.version},
                      {"source", f.family.source},
                      {"mode", f.family.mode},
                      {"ttft_factor", f.ttft},
                      {"tpot_factor", f.tpot},
                      {"points", f.points},
                      {"scope",
                       {{"isl", {f.min_isl, f.max_isl}},
                        {"osl", {f.min_osl, f.max_osl}},
                        {"concurrency", {f.min_concurrency, f.max_concurrency}}}}};
    if (f.left_one_out) {
      j["leave_one_out"] = {{"ttft_median_ape_percent", f.left_one_out->ttft_median_ape},
                            {"ttft_mape_percent", f.left_one_out->ttft_mape},
                            {"tpot_median_ape_percent", f.left_one_out->tpot_median_ape},
                            {"tpot_mape_percent", f.left_one_out->tpot_mape}};
    } else {
      j["leave_one_out"] = nullptr;
    }
    factors.push_back(std::move(j));
  }
  const ordered_json document = {{"schema", "infercast-calibration"},
                                 {"schema_version", 1},
                                 {"created_from", profile.created_from},
                                 {"program", profile.program},
                                 {"families", std::move(factors)}};
  return document.dump(2) + "\n";
}

Result<CalibrationProfile> ProfileFromJson(std::string_view text) {
  const ordered_json document = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || TextOf(document, "schema") != "infercast-calibration") {
    return Fail(ErrorKind::kInvalidArgument,
                "this is no calibration profile: expected JSON with schema infercast-calibration");
  }
  if (WholeOf(document, "schema_version") != 1) {
    return Fail(ErrorKind::kInvalidArgument,
                "calibration profile: schema_version must be 1, the one this program writes");
  }
  const auto families = document.find("families");
  if (families == document.end() || !families->is_array()) {
    return Fail(ErrorKind::kInvalidArgument, "calibration profile: 'families' must be a list");
  }
  CalibrationProfile profile;
  profile.created_from = TextOf(document, "created_from");
  profile.program = TextOf(document, "program");
  for (const ordered_json& j : *families) {
    if (!j.is_object()) {
      return Fail(ErrorKind::kInvalidArgument, "calibration profile: a family must be an object");
    }
    CalibrationFactor f;
    f.family = {TextOf(j, "backend"),   TextOf(j, "system"),  TextOf(j, "model"),
                TextOf(j, "precision"), TextOf(j, "version"), TextOf(j, "source")};
    if (const std::string mode = TextOf(j, "mode"); !mode.empty()) f.family.mode = mode;
    IC_ASSIGN(f.ttft, PositiveNumber(j, "ttft_factor"));
    IC_ASSIGN(f.tpot, PositiveNumber(j, "tpot_factor"));
    f.points = WholeOf(j, "points");
    const auto scope = j.find("scope");
    const auto range = [&](const char* key, std::int64_t& low, std::int64_t& high) {
      if (scope == j.end() || !scope->is_object()) return false;
      const auto it = scope->find(key);
      if (it == scope->end() || !it->is_array() || it->size() != 2 || !(*it)[0].is_number() ||
          !(*it)[1].is_number()) {
        return false;
      }
      constexpr double kMost = 9007199254740992;  // beyond it no number of tokens is meant
      const double from = (*it)[0].get<double>(), to = (*it)[1].get<double>();
      if (!(from >= 0 && from <= to && to <= kMost)) return false;
      low = static_cast<std::int64_t>(from);
      high = static_cast<std::int64_t>(to);
      return true;
    };
    if (!range("isl", f.min_isl, f.max_isl) || !range("osl", f.min_osl, f.max_osl) ||
        !range("concurrency", f.min_concurrency, f.max_concurrency)) {
      return Fail(ErrorKind::kInvalidArgument,
                  "calibration profile: 'scope' must hold [low, high] of isl, osl and concurrency");
    }
    if (const auto left = j.find("leave_one_out"); left != j.end() && left->is_object()) {
      const auto number = [&](const char* key) {
        const auto it = left->find(key);
        return it != left->end() && it->is_number() ? it->get<double>() : 0.0;
      };
      f.left_one_out = CalibrationFactor::Confidence{
          number("ttft_median_ape_percent"), number("ttft_mape_percent"),
          number("tpot_median_ape_percent"), number("tpot_mape_percent")};
    }
    profile.factors.push_back(std::move(f));
  }
  return profile;
}

}  // namespace infercast
