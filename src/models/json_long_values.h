// Long lists and objects that several texts spell alike: a checkpoint's files tend to repeat, word
// by word, the number format of each of their 20,000 matrices. Texts that are parsed one after the
// other with one JsonLongValues share the nodes of what they repeat.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "models/json_tree.h"

namespace infercast {

// The long values met so far. The texts must outlive it; the documents need not.
class JsonLongValues {
 private:
  friend class JsonWalker;
  struct Value {
    std::string_view text;
    std::size_t depth = 0;
    JsonNode node;
    std::shared_ptr<class JsonArena> arena;
  };
  std::vector<Value> values_;
};

// ParseLenientJson that shares long values, if the text is padded.
Result<JsonDocument> ParseLenientJson(std::string_view text, std::string_view what,
                                      JsonLimits limits, JsonLongValues& long_values);

// Whether both are one list or object in memory, as values that are spelt alike may be: repeated
// members of an object, and long values of several texts.
bool AreOneValue(JsonView a, JsonView b);

}  // namespace infercast
