// What kind of case a document is, by its members.
#include "golden_check/adapters.h"

namespace infercast::golden {

Adapter AdapterFor(const nlohmann::json& document, bool& is_data) {
  is_data = false;
  if (!document.is_object()) return nullptr;
  const auto has = [&](const char* key) { return document.contains(key); };
  if (has("op") && has("ctx")) return &RunOperatorCase;
  if (has("create") && has("steps")) return &RunOnlineCase;
  if (has("family") && has("config")) return &RunEngineCase;
  if (has("spec") && has("runs")) return &RunToyEngineCase;
  if (has("call") && has("args")) return &RunKvCase;
  if (has("samples") && has("tuples")) return &RunOracleFile;
  if (has("cases") && has("format")) return &RunSimulationFile;
  if (has("params") && has("values")) return &RunDeployCase;
  if (has("kind") && has("args")) return &RunAppCase;
  is_data = has("version_matrix");
  return nullptr;
}

}  // namespace infercast::golden
