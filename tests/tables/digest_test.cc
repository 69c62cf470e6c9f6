#include "tables/digest.h"

#include <gtest/gtest.h>

#include <string>

#include "support/data_files.h"

namespace infercast {
namespace {

using testing::TemporaryDirectory;
using testing::WriteText;

// The standard's test vector for "abc".
constexpr std::string_view kAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr std::string_view kAbcBase64 = "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0";

TEST(Digest, OfBytesAndOfFilesIsTheStandardOne) {
  const std::string text = "abc";
  EXPECT_EQ(ToHex(*Sha256(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), 3))), kAbc);
  const TemporaryDirectory directory;
  WriteText(directory.path() / "abc", text);
  EXPECT_EQ(ToHex(*Sha256OfFile(directory.path() / "abc")), kAbc);
}

TEST(Digest, OfAFileLargerThanTheBuffer) {
  const TemporaryDirectory directory;
  const std::string text(1000000, 'a');
  WriteText(directory.path() / "million", text);
  EXPECT_EQ(ToHex(*Sha256OfFile(directory.path() / "million")),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Digest, OfAMissingFileIsAnIoError) {
  const auto digest = Sha256OfFile("/nowhere/at/all");
  ASSERT_FALSE(digest);
  EXPECT_EQ(digest.error().kind, ErrorKind::kIo);
  EXPECT_NE(digest.error().message.find("/nowhere/at/all"), std::string::npos);
}

TEST(Digest, OfADirectoryIsAnIoError) {
  const TemporaryDirectory directory;
  const auto digest = Sha256OfFile(directory.path());
  ASSERT_FALSE(digest);
  EXPECT_EQ(digest.error().kind, ErrorKind::kIo);
}

TEST(Digest, ReadsUrlSafeBase64) {
  const auto digest = FromUrlSafeBase64(kAbcBase64);
  ASSERT_TRUE(digest);
  EXPECT_EQ(ToHex(*digest), kAbc);
}

TEST(Digest, RejectsWhatIsNotADigestInBase64) {
  std::string text(kAbcBase64);
  EXPECT_FALSE(FromUrlSafeBase64(text + "="));
  EXPECT_FALSE(FromUrlSafeBase64(text.substr(1)));
  EXPECT_FALSE(FromUrlSafeBase64(""));
  text[5] = '+';  // the other base64 alphabet
  EXPECT_FALSE(FromUrlSafeBase64(text));
  text = kAbcBase64;
  text.back() = '1';  // bits beyond the 256th
  EXPECT_FALSE(FromUrlSafeBase64(text));
}

}  // namespace
}  // namespace infercast
