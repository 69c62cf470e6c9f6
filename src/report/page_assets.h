// The page's own style and script: the files of report/page/, put into the program at build time.
#pragma once

#include <string_view>

namespace infercast {

extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace infercast
