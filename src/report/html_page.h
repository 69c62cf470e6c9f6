// The interactive page: one HTML file with its data, style and script inside. It needs no network
// and no server, and asks for none.
#pragma once

#include <string>

#include "report/plot_data.h"

namespace infercast {

// UTF-8; foreign texts reach the page as JSON strings only, and its script shows them as text.
std::string HtmlPage(const PlotData& data);

}  // namespace infercast
