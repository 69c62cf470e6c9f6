// EngineSpec.
#include "api/internal.h"
#include "engine/spec_binary.h"
#include "engine/spec_json.h"
#include "models/compile.h"

namespace infercast::v1 {

using internal::Guarded;

Result<EngineSpec> EngineSpec::FromBytes(std::span<const std::uint8_t> bytes) {
  return Guarded<EngineSpec>([&]() -> Result<EngineSpec> {
    API_ASSIGN(infercast::EngineSpec spec, infercast::ParseEngineSpecBinary(bytes));
    return EngineSpec(std::make_shared<const Impl>(Impl{std::move(spec)}));
  });
}

Result<EngineSpec> EngineSpec::FromJson(std::string_view text) {
  return Guarded<EngineSpec>([&]() -> Result<EngineSpec> {
    API_ASSIGN(infercast::EngineSpec spec, infercast::ParseEngineSpecJson(text));
    return EngineSpec(std::make_shared<const Impl>(Impl{std::move(spec)}));
  });
}

Result<EngineSpec> EngineSpec::Compile(const ModelOptions& options) {
  return Guarded<EngineSpec>([&]() -> Result<EngineSpec> {
    API_ASSIGN(const internal::OpenedModel opened, internal::OpenModel(options));
    API_ASSIGN(infercast::ModelPlan plan, opened.deployment->Plan(opened.layout));
    API_ASSIGN(infercast::EngineSpec spec,
               infercast::CompileEngineSpec(std::move(plan), opened.deployment->database()));
    return EngineSpec(std::make_shared<const Impl>(Impl{std::move(spec)}));
  });
}

std::vector<std::uint8_t> EngineSpec::ToBytes() const {
  return infercast::WriteEngineSpecBinary(impl_->spec);
}
std::string EngineSpec::ToJson() const { return infercast::WriteEngineSpecJson(impl_->spec); }

const std::string& EngineSpec::model() const { return impl_->spec.engine.model_name; }
const std::string& EngineSpec::system() const { return impl_->spec.engine.system_name; }
const std::string& EngineSpec::backend() const { return impl_->spec.engine.backend; }
std::string EngineSpec::version() const {
  return impl_->spec.engine.backend_version.value_or(std::string());
}
std::size_t EngineSpec::num_context_operators() const { return impl_->spec.context_ops.size(); }
std::size_t EngineSpec::num_generation_operators() const {
  return impl_->spec.generation_ops.size();
}
bool EngineSpec::operator==(const EngineSpec& other) const {
  return impl_->spec == other.impl_->spec;
}

}  // namespace infercast::v1
