// Kinds of cases whose part of the project does not stand yet: they count as failed.
#include "golden_check/adapters.h"

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

std::vector<Outcome> NotBuilt(std::string kind, const Json& document) {
  return {Failed(std::move(kind), document.value("kind", document.value("call", "all")),
                 document.value("id", ""), "an answer", "not built yet")};
}

std::vector<Outcome> NotBuilt(std::string kind, const Json& document, const char* list,
                              const char* name) {
  std::vector<Outcome> outcomes;
  for (const Json& item : document.at(list)) {
    outcomes.push_back(Failed(kind, item.value("kind", "all"), item.value(name, ""), "an answer",
                              "not built yet"));
  }
  return outcomes;
}

}  // namespace

std::vector<Outcome> RunDeployCase(const Json& document, Environment&) {
  return NotBuilt("deploy", document);
}
std::vector<Outcome> RunSimulationFile(const Json& document, Environment&) {
  return NotBuilt("simulation", document, "cases", "name");
}

}  // namespace infercast::golden
