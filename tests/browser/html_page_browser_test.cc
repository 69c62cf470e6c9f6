// The interactive page in a real browser: headless Chromium opens it from disk. Runs in ./check
// --full, which installs the browser. INFERCAST_SCREENSHOT_DIR=<folder> keeps pictures to look at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "report/html_page.h"
#include "report/sample_plot.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Browser {
 public:
  Browser() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "infercast-page-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Browser() { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return "file://" + (folder_ / name).string();
  }

  // Runs Chromium; what it prints, and in `log` what pages said on their console.
  std::string Run(const std::string& options, const std::string& url, std::string& log) const {
    const std::string err = (folder_ / "log").string();
    const std::string command =
        "chromium --headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars "
        "--allow-file-access-from-files --enable-logging=stderr --virtual-time-budget=4000 "
        "--user-data-dir=" +
        (folder_ / "profile").string() + " " + options + " '" + url + "' 2>" + err;
    std::string out;
    std::FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return out;
    char buffer[65536];
    for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      out.append(buffer, n);
    EXPECT_EQ(pclose(pipe), 0) << "chromium failed: is the Debian package installed?";
    std::ifstream stream(err);
    log.assign(std::istreambuf_iterator<char>(stream), {});
    return out;
  }

  void Screenshot(const std::string& name, int width, int height, const std::string& url) const {
    const char* kept = std::getenv("INFERCAST_SCREENSHOT_DIR");
    const std::filesystem::path file =
        (kept != nullptr ? std::filesystem::path(kept) : folder_) / name;
    std::string log;
    Run("--screenshot=" + file.string() + " --window-size=" + std::to_string(width) + "," +
            std::to_string(height),
        url, log);
    EXPECT_GT(std::filesystem::file_size(file), 10'000u) << "an empty picture";
  }

 private:
  std::filesystem::path folder_;
};

std::set<int> PointsIn(const std::string& dom) {
  std::set<int> found;
  const std::regex pattern("<path class=\"point[^\"]*\" data-i=\"([0-9]+)\"");
  for (std::sregex_iterator it(dom.begin(), dom.end(), pattern), end; it != end; ++it) {
    found.insert(std::stoi((*it)[1]));
  }
  return found;
}

// A frame as narrow as a phone: windows of a desktop browser cannot be. The page inside reports the
// width it takes, which must not be more than what it has.
std::string Narrow(const std::string& page, int width, int height) {
  return "<!DOCTYPE html><body style='margin:0'><iframe src='" + page + "' width='" +
         std::to_string(width) + "' height='" + std::to_string(height) +
         "' style='border:0'></iframe><p id=said></p><script>addEventListener('message', "
         "e => { document.getElementById('said').textContent = e.data; });</script>";
}
std::string Reporting(std::string page) {
  const std::string script =
      "<script>addEventListener('load', () => parent.postMessage(`inner ${innerWidth} taken "
      "${document.documentElement.scrollWidth}`, '*'));</script></body>";
  return page.replace(page.rfind("</body>"), 7, script);
}

TEST(HtmlPageBrowserTest, ShowsEveryPointWithoutAnError) {
  const Browser browser;
  const std::string url = browser.Write("page.html", HtmlPage(testing::SamplePlot(2000)));
  std::string log;
  const std::string dom = browser.Run("--dump-dom --window-size=1280,900", url, log);
  EXPECT_THAT(dom, HasSubstr("data-ready=\"2000\""));
  EXPECT_EQ(PointsIn(dom).size(), 2000u);
  EXPECT_THAT(dom, HasSubstr("2,000 of 2,000 points"));
  // The chosen point shows its command and where its time goes.
  EXPECT_THAT(dom, HasSubstr("<pre id=\"command\">infercast estimate"));
  EXPECT_THAT(dom, HasSubstr("step with prefill"));
  EXPECT_THAT(log, Not(HasSubstr("CONSOLE"))) << log;
  browser.Screenshot("page-1280.png", 1280, 1100, url);
}

TEST(HtmlPageBrowserTest, FitsNarrowAndWideWindows) {
  const Browser browser;
  const std::string page =
      browser.Write("page.html", Reporting(HtmlPage(testing::SamplePlot(400))));
  for (const int width : {400, 1280}) {
    const std::string url = browser.Write("frame.html", Narrow(page, width, 1400));
    std::string log;
    const std::string dom = browser.Run("--dump-dom --window-size=1400,1500", url, log);
    const std::string said = std::to_string(width);
    EXPECT_THAT(dom, HasSubstr("inner " + said + " taken " + said));
    browser.Screenshot("page-in-" + said + ".png", width == 400 ? 500 : 1300, 1400, url);
  }
}

TEST(HtmlPageBrowserTest, FiltersSortsAndChoosesWhenClicked) {
  const Browser browser;
  std::string page = HtmlPage(testing::SamplePlot(200));
  const std::string script =
      "<script>addEventListener('load', () => {"
      "document.querySelector('[data-filter=backend] input').click();"  // trtllm off
      "document.querySelectorAll('#head button')[4].click();"           // by speed per user
      "document.querySelector('#rows tr').click();"
      "document.body.dataset.first = document.querySelector('#rows tr').dataset.i;"
      "});</script></body>";
  page.replace(page.rfind("</body>"), 7, script);
  std::string log;
  const std::string dom = browser.Run("--dump-dom", browser.Write("page.html", page), log);
  EXPECT_THAT(log, Not(HasSubstr("CONSOLE"))) << log;
  EXPECT_THAT(dom, HasSubstr("100 of 200 points"));
  EXPECT_THAT(dom, HasSubstr("data-first=\"199\""));  // the fastest
  const std::set<int> shown = PointsIn(dom);
  EXPECT_EQ(shown.size(), 100u);
  EXPECT_EQ(shown.count(0), 0u);
  EXPECT_THAT(
      dom,
      HasSubstr(
          "--system h200_sxm --backend vllm --isl 4000 --osl 1000 --tp-size 8 --batch-size 11<"));
}

TEST(HtmlPageBrowserTest, ShowsHostileNamesAsText) {
  const Browser browser;
  PlotData data = testing::SamplePlot(3);
  const std::string evil =
      "</script><script>document.body.dataset.hacked=1</script><img src=x onerror=alert(1)>";
  data.title = evil;
  data.points[0].series = data.points[0].parallel = data.points[0].command = evil;
  data.points[0].facts = {{evil, evil}};
  std::string log;
  const std::string dom =
      browser.Run("--dump-dom", browser.Write("page.html", HtmlPage(data)), log);
  EXPECT_THAT(dom, HasSubstr("data-ready=\"3\""));
  EXPECT_THAT(dom, Not(HasSubstr("data-hacked")));
  EXPECT_THAT(dom, Not(HasSubstr("<img")));
  EXPECT_THAT(log, Not(HasSubstr("CONSOLE"))) << log;
}

}  // namespace
}  // namespace infercast
