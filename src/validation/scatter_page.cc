// A page of scatter plots, predicted against measured on logarithmic axes, one dot per row with
// what it is in its tooltip. Plain SVG: no script, nothing fetched.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/xml_text.h"
#include "validation/report.h"

namespace infercast {

namespace {

constexpr double kSize = 460, kMargin = 56;

struct Dot {
  double measured, predicted;
  std::string backend, title;
};

std::string_view ColourOf(std::string_view backend) {
  if (backend == "trtllm") return "#4c9a2a";
  if (backend == "sglang") return "#d1495b";
  if (backend == "vllm") return "#2e78c2";
  return "#777777";
}

std::string Plot(const std::string& title, const std::vector<Dot>& dots) {
  double low = 1e300, high = 0;
  for (const Dot& d : dots) {
    low = std::min({low, d.measured, d.predicted});
    high = std::max({high, d.measured, d.predicted});
  }
  if (dots.empty()) low = 1, high = 10;
  const double a = std::floor(std::log10(low)), b = std::max(a + 1, std::ceil(std::log10(high)));
  const double width = kSize - 2 * kMargin;
  const auto x = [&](double v) { return kMargin + (std::log10(v) - a) / (b - a) * width; };
  const auto y = [&](double v) { return kSize - x(v); };
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {0}\" width=\"{0}\" height=\"{0}\" role=\"img\"><title>{1}</title>"
      "<text x=\"{2}\" y=\"24\" class=\"head\">{1}, {3} rows</text>",
      kSize, XmlEscaped(title), kMargin, dots.size());
  for (int e = static_cast<int>(a); e <= static_cast<int>(b); ++e) {
    const double v = std::pow(10.0, e);
    svg += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {4:.1f}H{5:.1f}\" class=\"grid\"/>"
        "<text x=\"{0:.1f}\" y=\"{6:.1f}\" class=\"tick\" text-anchor=\"middle\">{7:g}</text>"
        "<text x=\"{8:.1f}\" y=\"{9:.1f}\" class=\"tick\" text-anchor=\"end\">{7:g}</text>",
        x(v), kMargin, kSize - kMargin, kMargin, y(v), kSize - kMargin, kSize - kMargin + 16, v,
        kMargin - 6, y(v) + 4);
  }
  const double lo = std::pow(10.0, a), hi = std::pow(10.0, b);
  svg += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" class=\"equal\"/>", x(lo), y(lo),
                     x(hi), y(hi));
  // Half and twice the measured value.
  for (const double f : {0.5, 2.0}) {
    const double from = f < 1 ? lo / f : lo, to = f < 1 ? hi : hi / f;
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" class=\"twice\"/>", x(from),
                       y(from * f), x(to), y(to * f));
  }
  for (const Dot& d : dots) {
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" fill=\"{}\"><title>{}</title></circle>",
        x(d.measured), y(d.predicted), ColourOf(d.backend), XmlEscaped(d.title));
  }
  svg += fmt::format(
      "<text x=\"{0:.1f}\" y=\"{1:.1f}\" class=\"axis\" text-anchor=\"middle\">measured, ms</text>"
      "<text transform=\"translate(14 {0:.1f}) rotate(-90)\" class=\"axis\" "
      "text-anchor=\"middle\">predicted, ms</text></svg>\n",
      kSize / 2, kSize - 10);
  return svg;
}

}  // namespace

std::string ValidationHtml(std::span<const ValidatedRow> rows, const std::string& file) {
  std::array<std::vector<Dot>, 4> dots;  // TTFT and TPOT, aggregated then disaggregated
  for (const ValidatedRow& row : rows) {
    const RepairedPoint& m = row.measured;
    if (!row.answered() || m.copy) continue;
    const std::size_t at = m.disaggregated ? 2 : 0;
    const auto add = [&](std::size_t i, std::optional<double> measured, double predicted) {
      if (!measured || !(*measured > 0) || !(predicted > 0)) return;
      dots[i].push_back(
          {*measured, predicted, m.point.backend,
           fmt::format("{} on {}, {}, {}/{} tokens, {} in flight\nmeasured {:.4g} ms, predicted "
                       "{:.4g} ms{}\nline {} {}",
                       m.point.model, m.point.system, m.point.backend, m.point.isl.value_or(0),
                       m.point.osl.value_or(0), m.concurrency, *measured, predicted,
                       m.hidden_speculation ? " (probably speculates)" : "", m.point.line,
                       m.point.id)});
    };
    add(at, m.point.ttft_ms, row.best_ttft_ms());
    add(at + 1, m.point.tpot_ms, row.best_tpot_ms());
  }
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<title>Predicted against measured: {0}</title><style>"
      "body{{font:15px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:1000px;padding:0 1rem}}"
      "pre{{overflow-x:auto;font-size:12px}}svg{{max-width:100%}}"
      ".head{{font-weight:600}}.tick{{font-size:11px;fill:#666}}.axis{{font-size:12px;fill:#444}}"
      ".grid{{stroke:#e4e4e4;fill:none}}.equal{{stroke:#333}}"
      ".twice{{stroke:#999;stroke-dasharray:4 4}}circle{{fill-opacity:.6}}"
      "i{{display:inline-block;width:.8em;height:.8em;border-radius:50%;margin:0 .3em 0 1em}}"
      "</style></head><body><h1>Predicted against measured</h1><p>{0}. A dot is one measurement; "
      "dots on the line are right, dashed lines are half and twice the measured value."
      "<i style=\"background:#4c9a2a\"></i>trtllm<i style=\"background:#d1495b\"></i>sglang"
      "<i style=\"background:#2e78c2\"></i>vllm</p>\n",
      XmlEscaped(file));
  constexpr std::array<const char*, 4> kTitles = {
      "Time to first token, aggregated", "Time per output token, aggregated",
      "Time to first token, disaggregated", "Time per output token, disaggregated"};
  for (std::size_t i = 0; i < dots.size(); ++i) {
    if (i < 2 || !dots[i].empty()) page += Plot(kTitles[i], dots[i]);
  }
  page += "<h2>Scores</h2><pre>" + XmlEscaped(ValidationText(rows)) + "</pre></body></html>\n";
  return page;
}

}  // namespace infercast
