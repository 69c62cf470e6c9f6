#include "serving/correction_settings.h"

#include <fmt/format.h>

#include <charconv>

namespace infercast {

Result<CorrectionSettings> ParseCorrections(const std::vector<std::string>& texts) {
  CorrectionSettings set;
  for (const std::string& text : texts) {
    const std::size_t at = text.find('=');
    const std::string name = text.substr(0, at);
    double value = 0;
    bool read = at != std::string::npos && at > 0;
    if (read) {
      const char *begin = text.data() + at + 1, *end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(begin, end, value);
      read = error == std::errc() && stop == end;
    }
    if (!read) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("correction: expected name=value, got '{}'", text));
    }
    ServingCorrections probe;
    IC_RETURN_IF_ERROR(SetCorrection(probe, name, value));
    set.emplace_back(name, value);
  }
  return set;
}

Status ApplyCorrections(const CorrectionSettings& settings, ServingCorrections& corrections) {
  for (const auto& [name, value] : settings) {
    IC_RETURN_IF_ERROR(SetCorrection(corrections, name, value));
  }
  return {};
}

}  // namespace infercast
