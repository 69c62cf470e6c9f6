#include "base/xml_text.h"

#include <gtest/gtest.h>

#include <string>

namespace infercast {
namespace {

TEST(XmlEscapedTest, EscapesMarkupAndReplacesWhatIsNoText) {
  EXPECT_EQ(XmlEscaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(XmlEscaped("grün µ 模"), "grün µ 模");
  EXPECT_EQ(XmlEscaped(std::string("\x01", 1)), "\xEF\xBF\xBD");
  EXPECT_EQ(XmlEscaped("\xFFok"), "\xEF\xBF\xBDok");
  EXPECT_EQ(XmlEscaped("\xC3"), "\xEF\xBF\xBD");                  // cut short
  EXPECT_EQ(XmlEscaped("\xC0\xBC"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // "<" in two bytes
}

}  // namespace
}  // namespace infercast
