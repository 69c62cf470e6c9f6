# Writes a source file that holds the page's style and script as constants. Run with cmake -P and
# -DSTYLE=... -DSCRIPT=... -DOUTPUT=...
file(READ "${STYLE}" style)
file(READ "${SCRIPT}" script)
set(text "// Made from the files of src/report/page/ by cmake/EmbedPage.cmake.\n#include \"report/page_assets.h\"\n\n")
string(APPEND text "namespace infercast {\n\n")
string(APPEND text "const std::string_view kPageStyle = R\"PAGE(${style})PAGE\";\n")
string(APPEND text "const std::string_view kPageScript = R\"PAGE(${script})PAGE\";\n")
string(APPEND text "\n}  // namespace infercast\n")
file(WRITE "${OUTPUT}" "${text}")
