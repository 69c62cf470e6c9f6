// Drawing into a grid of cells.
#include "report/plot_terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace infercast {
namespace {

// Told apart on dark and light backgrounds alike.
constexpr std::array<int, 6> kColours = {34, 33, 32, 35, 36, 31};

struct Cell {
  std::uint8_t dots = 0;  // braille
  char letter = 0;        // instead of dots
  bool picked = false;
  int series = -1;
};

// Bits of a braille cell by column (0, 1) and row (0..3), as Unicode numbers its eight dots.
constexpr std::uint8_t kDots[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};

class Canvas {
 public:
  Canvas(int columns, int rows) : columns_(columns), rows_(rows), cells_(Size(columns, rows)) {}

  int dot_columns() const { return columns_ * 2; }
  int dot_rows() const { return rows_ * 4; }
  const Cell& at(int column, int row) const { return cells_[Index(column, row)]; }

  // Dots count from the lower left corner.
  Cell& CellOfDot(int x, int y) { return cells_[Index(x / 2, rows_ - 1 - y / 4)]; }
  void Dot(int x, int y, int series) {
    Cell& cell = CellOfDot(x, y);
    cell.dots |= kDots[x % 2][3 - y % 4];
    cell.series = series;
  }
  void Line(int x0, int y0, int x1, int y1, int series) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      Dot(x0 + static_cast<int>(std::lround(static_cast<double>(x1 - x0) * i / steps)),
          y0 + static_cast<int>(std::lround(static_cast<double>(y1 - y0) * i / steps)), series);
    }
  }

 private:
  static std::size_t Size(int columns, int rows) {
    return static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows);
  }
  std::size_t Index(int column, int row) const {
    return Size(columns_, row) + static_cast<std::size_t>(column);
  }

  int columns_, rows_;
  std::vector<Cell> cells_;
};

void AppendUtf8(std::string& text, std::uint32_t code) {  // of the three-byte range
  text += static_cast<char>(0xE0 | (code >> 12));
  text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
  text += static_cast<char>(0x80 | (code & 0x3F));
}

std::string WithoutControls(std::string_view text) {
  std::string clean;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) clean += c;
  }
  return clean;
}

std::string Coloured(const std::string& text, int series, bool colour) {
  if (!colour || series < 0) return text;
  return fmt::format("\x1b[{}m{}\x1b[0m", kColours[static_cast<std::size_t>(series) % 6], text);
}

char LetterOf(std::size_t series) { return static_cast<char>('a' + series % 26); }

std::string CellText(const Cell& cell, const TerminalPlotStyle& style) {
  if (cell.picked) {
    const std::string mark = style.unicode ? "◆" : "@";
    return style.colour ? "\x1b[1;31m" + mark + "\x1b[0m" : mark;
  }
  if (cell.letter != 0) return Coloured(std::string(1, cell.letter), cell.series, style.colour);
  if (cell.dots == 0) return " ";
  std::string text;
  AppendUtf8(text, 0x2800u + cell.dots);
  return Coloured(text, cell.series, style.colour);
}

}  // namespace

TerminalPlotStyle StyleOfStandardOutput() {
  TerminalPlotStyle style;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = size.ws_col;
  } else if (const int columns = std::atoi(std::string(variable("COLUMNS")).c_str()); columns > 0) {
    style.width = columns;
  }
  style.width = std::clamp(style.width, 40, 120);
  std::string_view locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (locale.empty()) locale = variable(name);
  }
  style.unicode = locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos ||
                  locale.find("UTF8") != locale.npos || locale.find("utf-8") != locale.npos;
  style.colour =
      isatty(STDOUT_FILENO) == 1 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  return style;
}

std::string TerminalPlot(const PlotData& data, const TerminalPlotStyle& style) {
  constexpr int kMargin = 8;  // y marks and the axis
  const int columns = std::max(style.width, 40) - kMargin - 1;
  const int rows = std::max(style.height, 5);
  double largest_x = 0, largest_y = 0;
  bool any = false;
  for (const PlotPoint& p : data.points) {
    if (!std::isfinite(p.tokens_s_user) || !std::isfinite(p.tokens_s_gpu)) continue;
    any = true;
    largest_x = std::max(largest_x, p.tokens_s_user);
    largest_y = std::max(largest_y, p.tokens_s_gpu);
  }
  if (!any) return "(nothing to plot)\n";
  const PlotAxis x_axis = AxisFor(largest_x, columns / 12);
  const PlotAxis y_axis = AxisFor(largest_y, rows / 4);

  Canvas canvas(columns, rows);
  const auto dot_x = [&](double v) {
    return static_cast<int>(std::lround(v / x_axis.end * (canvas.dot_columns() - 1)));
  };
  const auto dot_y = [&](double v) {
    return static_cast<int>(std::lround(v / y_axis.end * (canvas.dot_rows() - 1)));
  };
  const std::vector<std::string> series = SeriesOf(data);
  // Series that colours cannot tell apart are told apart by letters.
  const bool letters = !style.unicode || (series.size() > 1 && !style.colour);
  for (std::size_t s = 0; s < series.size(); ++s) {
    const int number = static_cast<int>(s);
    for (const PlotPoint& p : data.points) {
      if (p.series != series[s] || !std::isfinite(p.tokens_s_user) ||
          !std::isfinite(p.tokens_s_gpu)) {
        continue;
      }
      if (letters) {
        Cell& cell = canvas.CellOfDot(dot_x(p.tokens_s_user), dot_y(p.tokens_s_gpu));
        if (cell.letter == 0) {
          cell.letter = '.';
          cell.series = number;
        }
      } else {
        canvas.Dot(dot_x(p.tokens_s_user), dot_y(p.tokens_s_gpu), number);
      }
    }
  }
  for (std::size_t s = 0; s < series.size(); ++s) {
    const int number = static_cast<int>(s);
    const PlotPoint* last = nullptr;
    for (const std::uint32_t i : FrontOf(data, series[s])) {
      const PlotPoint& p = data.points[i];
      if (letters) {
        Cell& cell = canvas.CellOfDot(dot_x(p.tokens_s_user), dot_y(p.tokens_s_gpu));
        cell.letter = LetterOf(s);
        cell.series = number;
      } else if (last != nullptr) {
        canvas.Line(dot_x(last->tokens_s_user), dot_y(last->tokens_s_gpu), dot_x(p.tokens_s_user),
                    dot_y(p.tokens_s_gpu), number);
      }
      last = &p;
    }
  }
  bool any_picked = false;
  for (const PlotPoint& p : data.points) {
    if (!p.picked || !std::isfinite(p.tokens_s_user) || !std::isfinite(p.tokens_s_gpu)) continue;
    canvas.CellOfDot(dot_x(p.tokens_s_user), dot_y(p.tokens_s_gpu)).picked = true;
    any_picked = true;
  }

  // A mark of y stands beside the row that holds its height.
  std::vector<std::string> y_marks(static_cast<std::size_t>(rows));
  for (double v = 0; v <= y_axis.end * (1 + 1e-9); v += y_axis.step) {
    y_marks[static_cast<std::size_t>(rows - 1 - dot_y(v) / 4)] = TickText(v, y_axis.step);
  }
  std::string text;
  if (!data.title.empty()) text += WithoutControls(data.title) + "\n";
  text += "tokens/s per GPU\n";
  for (int row = 0; row < rows; ++row) {
    const std::string& mark = y_marks[static_cast<std::size_t>(row)];
    const char* axis = style.unicode ? (mark.empty() ? "│" : "┤") : (mark.empty() ? "|" : "+");
    std::string line = fmt::format("{:>{}}{}", mark, kMargin - 1, axis);
    std::string drawn;
    for (int column = 0; column < columns; ++column) {
      const std::string cell = CellText(canvas.at(column, row), style);
      drawn += cell;
      if (cell != " ") {
        line += drawn;
        drawn.clear();
      }
    }
    text += line + "\n";
  }
  std::string axis_line(kMargin - 1, ' ');
  axis_line += style.unicode ? "└" : "+";
  std::vector<bool> ticked(static_cast<std::size_t>(columns));
  std::string labels(static_cast<std::size_t>(kMargin + columns), ' ');
  std::size_t free_from = 0;
  for (double v = 0; v <= x_axis.end * (1 + 1e-9); v += x_axis.step) {
    const auto column = static_cast<std::size_t>(dot_x(v) / 2);
    ticked[column] = true;
    const std::string mark = TickText(v, x_axis.step);
    std::size_t at = column + kMargin;
    at = std::min(at - std::min(at, mark.size() / 2), labels.size() - mark.size());
    if (at < free_from) continue;
    labels.replace(at, mark.size(), mark);
    free_from = at + mark.size() + 1;
  }
  for (const bool tick : ticked) {
    axis_line += style.unicode ? (tick ? "┴" : "─") : (tick ? "+" : "-");
  }
  labels.erase(labels.find_last_not_of(' ') + 1);
  text += axis_line + "\n" + labels + "\n";
  text += fmt::format("{:>{}}\n", "tokens/s per user", kMargin + columns);
  for (std::size_t s = 0; s < series.size(); ++s) {
    const std::string mark = letters ? std::string(1, LetterOf(s)) : "━";
    text += fmt::format("  {} {}\n", Coloured(mark, static_cast<int>(s), style.colour),
                        WithoutControls(series[s]));
  }
  if (any_picked) {
    Cell mark;
    mark.picked = true;
    text += fmt::format("  {} picked\n", CellText(mark, style));
  }
  return text;
}

}  // namespace infercast
