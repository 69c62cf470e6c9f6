// Engines, engine descriptions, memory estimates.
#include <nanobind/ndarray.h>

#include <span>

#include "binding.h"

namespace infercast::python {

namespace {

using Sizes = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const std::uint32_t> SpanOf(const Sizes& sizes) { return {sizes.data(), sizes.size()}; }

// Latencies as a new NumPy array in the common shape of the arguments.
template <typename Price>
nb::object PriceArrays(const nb::tuple& columns, Price price) {
  // (flat uint32 arrays..., shape): broadcast and checked.
  const nb::tuple prepared =
      nb::cast<nb::tuple>(nb::module_::import_("infercast._records").attr("shapes")(columns));
  std::vector<Sizes> sizes;
  for (std::size_t i = 0; i + 1 < prepared.size(); ++i) {
    sizes.push_back(nb::cast<Sizes>(prepared[i]));
  }
  const std::size_t count = sizes.front().size();
  double* const out = new double[count];
  nb::capsule owner(out, [](void* p) noexcept { delete[] static_cast<double*>(p); });
  Result<std::vector<ShapeError>> errors;
  {
    const nb::gil_scoped_release unlocked;
    errors = price(sizes, std::span(out, count));
  }
  const std::vector<ShapeError> failed = OrRaise(std::move(errors));
  const nb::object flat =
      nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<1>>(out, {count}, owner));
  return nb::module_::import_("infercast._records")
      .attr("priced")(flat, prepared[prepared.size() - 1], failed.size(),
                      failed.empty() ? std::string() : failed.front().error.message);
}

nb::bytes BytesOf(const EngineSpec& spec) {
  const std::vector<std::uint8_t> bytes = spec.ToBytes();
  return nb::bytes(bytes.data(), bytes.size());
}

EngineSpec SpecOf(const nb::bytes& bytes) {
  return OrRaise(EngineSpec::FromBytes(
      std::span(static_cast<const std::uint8_t*>(bytes.data()), bytes.size())));
}

MixedShape Mixed(std::uint32_t context_tokens, std::uint32_t decodes, std::uint32_t isl,
                 std::uint32_t osl, std::uint32_t prefix) {
  return {context_tokens, decodes, isl, osl, prefix, 1.0, 1.0};
}

}  // namespace

void BindEngine(nb::module_& m) {
  Record<StepCost>(m, "StepCost", "Cost of a step.")
      .Field("latency_ms", &StepCost::latency_ms, "Milliseconds.")
      .Field("energy_wms", &StepCost::energy_wms, "Watt-milliseconds.")
      .Field("powered_ms", &StepCost::powered_ms,
             "Part of the latency whose operators have measured power (ms).");
  {
    Record<StaticCost> r(m, "StaticCost", "Cost of a static batch.");
    r.Field("context", &StaticCost::context, "The prefill.")
        .Field("generation", &StaticCost::generation, "All osl - 1 decode steps.");
    r.cls().def_prop_ro("total_ms", &StaticCost::total_ms, "Milliseconds of both.");
  }
  {
    Record<MixedCost> r(m, "MixedCost", "Cost of one iteration of a continuous batch.");
    r.Field("shared", &MixedCost::shared, "Everything but attention.")
        .Field("context_attention", &MixedCost::context_attention, "Attention of the prefill.")
        .Field("decode_attention", &MixedCost::decode_attention, "Attention of the decodes.");
    r.cls().def_prop_ro("total_ms", &MixedCost::total_ms, "Milliseconds of all three.");
  }
  Record<OperatorCost>(m, "OperatorCost", "One operator's part of a step.")
      .Field("name", &OperatorCost::name, "Operator.")
      .Field("latency_ms", &OperatorCost::latency_ms, "Milliseconds.")
      .Field("energy_wms", &OperatorCost::energy_wms, "Watt-milliseconds.")
      .Field("source", &OperatorCost::source, "silicon, empirical, sol, estimated or mixed.")
      .Field("origin", &OperatorCost::origin,
             "measured, interpolated, extrapolated, estimated ...: the weakest that took part.")
      .Field("octaves", &OperatorCost::octaves,
             "How far beyond the measurements, in powers of two.")
      .Field("version", &OperatorCost::version,
             "Backend version of the nearest measured row, or empty.")
      .Field("donor", &OperatorCost::donor, "What an estimate was borrowed from, or empty.")
      .Field("bound", &OperatorCost::bound,
             "estimate(bounds=True): compute, bandwidth, launch, communication, none or unknown.")
      .Field("attained", &OperatorCost::attained,
             "Time at the speed of light over latency; 0: not known.")
      .Field("count", &OperatorCost::count, "Calls in one pass of the model; 0: not known.");

  nb::class_<EngineSpec>(m, "EngineSpec",
                         "A compiled model as data: its identity and its two lists of operators.")
      .def_static(
          "compile",
          [](const nb::kwargs& settings) {
            return OrRaise(EngineSpec::Compile(OptionsOf(settings).model()));
          },
          "settings"_a, "Settings as for Engine.compile.")
      .def_static("from_bytes", &SpecOf, "data"_a, "Decodes the binary form.")
      .def_static(
          "from_json", [](const std::string& text) { return OrRaise(EngineSpec::FromJson(text)); },
          "text"_a, "Decodes the JSON form.")
      .def("to_bytes", &BytesOf, "The binary form.")
      .def("to_json", &EngineSpec::ToJson, "The JSON form.")
      .def_prop_ro("model", &EngineSpec::model, "Name of the model.")
      .def_prop_ro("system", &EngineSpec::system, "Name of the GPU system.")
      .def_prop_ro("backend", &EngineSpec::backend, "Serving backend.")
      .def_prop_ro("version", &EngineSpec::version, "Backend version, or empty.")
      .def_prop_ro("num_context_operators", &EngineSpec::num_context_operators)
      .def_prop_ro("num_generation_operators", &EngineSpec::num_generation_operators)
      .def("__eq__", [](const EngineSpec& a, const EngineSpec& b) { return a == b; })
      .def("__eq__", [](const EngineSpec&, nb::handle) { return false; })
      .def("__getstate__", &BytesOf)
      .def("__setstate__",
           [](EngineSpec& self, const nb::bytes& bytes) { new (&self) EngineSpec(SpecOf(bytes)); });

  nb::class_<Engine>(m, "Engine",
                     "The latency of single steps of a model on a system.\n\n"
                     "Latencies are in milliseconds. Requests and tokens are those of one "
                     "data-parallel rank; pipeline stages are summed. Immutable and safe to share "
                     "between threads.")
      .def_static(
          "compile",
          [](const nb::kwargs& settings) {
            const NamedOptions options = OptionsOf(settings);
            Result<Engine> engine = [&] {
              const nb::gil_scoped_release unlocked;
              return Engine::Compile(options.model());
            }();
            return OrRaise(std::move(engine));
          },
          "settings"_a,
          "Builds a model and binds its operators to the measurements.\n\n"
          "Settings: model, system, backend, backend_version, database_mode, transfer_policy,\n"
          "behaviour, systems_paths, tp_size, pp_size, attention_dp_size, cp_size, moe_tp_size,\n"
          "moe_ep_size, gemm_quant_mode, moe_quant_mode, kvcache_quant_mode, fmha_quant_mode,\n"
          "comm_quant_mode, nextn, attention_backend, moe_backend.")
      .def_static(
          "from_spec",
          [](const nb::object& spec, const std::string& systems_paths,
             const std::string& behaviour) {
            const EngineSpec decoded = nb::isinstance<nb::bytes>(spec)
                                           ? SpecOf(nb::cast<nb::bytes>(spec))
                                           : nb::cast<EngineSpec>(spec);
            return OrRaise(Engine::FromSpec(decoded, systems_paths, behaviour));
          },
          "spec"_a, "systems_paths"_a = "", "behaviour"_a = "native",
          "From an EngineSpec or its binary form, also one that the reference package wrote.")
      .def_prop_ro("spec", &Engine::spec, "The engine's description.")
      .def(
          "prefill",
          [](const Engine& e, std::uint32_t batch, std::uint32_t isl, std::uint32_t prefix) {
            return OrRaise(e.Prefill(batch, isl, prefix));
          },
          "batch"_a, "isl"_a, "prefix"_a = 0,
          "Milliseconds to prefill `batch` requests of `isl` tokens, `prefix` of them cached.")
      .def(
          "decode",
          [](const Engine& e, std::uint32_t batch, std::uint32_t isl, std::uint32_t osl) {
            return OrRaise(e.Decode(batch, isl, osl));
          },
          "batch"_a, "isl"_a, "osl"_a = 2,
          "Milliseconds of all decode steps after the first of `osl` tokens; osl = 2: one step.")
      .def(
          "static",
          [](const Engine& e, std::uint32_t batch, std::uint32_t isl, std::uint32_t osl,
             std::uint32_t prefix, std::uint32_t beam_width, std::uint32_t stride) {
            return OrRaise(e.Static({batch, isl, osl, prefix, beam_width, 1.0, 1.0}, stride));
          },
          "batch"_a, "isl"_a, "osl"_a, "prefix"_a = 0, "beam_width"_a = 1, "stride"_a = 32,
          "Cost of a batch that prefills together and then decodes together.")
      .def(
          "mixed_step",
          [](const Engine& e, std::uint32_t context_tokens, std::uint32_t decodes,
             std::uint32_t isl, std::uint32_t osl, std::uint32_t prefix) {
            return OrRaise(e.MixedStep(Mixed(context_tokens, decodes, isl, osl, prefix)));
          },
          "context_tokens"_a, "decodes"_a, "isl"_a, "osl"_a, "prefix"_a = 0,
          "Cost of an iteration with `context_tokens` of prefill beside `decodes` requests halfway "
          "through their output.")
      .def(
          "decode_step",
          [](const Engine& e, std::uint32_t decodes, std::uint32_t isl, std::uint32_t osl) {
            return OrRaise(e.DecodeStep(decodes, isl, osl));
          },
          "decodes"_a, "isl"_a, "osl"_a, "Cost of a decode-only iteration.")
      .def(
          "forward_pass",
          [](const Engine& e, std::uint32_t num_prefill_requests, std::uint32_t sum_prefill_tokens,
             std::uint32_t sum_prefill_kv_tokens, std::uint32_t num_decode_requests,
             std::uint32_t sum_decode_kv_tokens) {
            return OrRaise(e.ForwardPass(
                ScheduledRequests{num_prefill_requests, sum_prefill_tokens, sum_prefill_kv_tokens,
                                  num_decode_requests, sum_decode_kv_tokens}));
          },
          "num_prefill_requests"_a = 0, "sum_prefill_tokens"_a = 0, "sum_prefill_kv_tokens"_a = 0,
          "num_decode_requests"_a = 0, "sum_decode_kv_tokens"_a = 0,
          "Milliseconds of an iteration of one rank as a scheduler knows it.")
      .def(
          "explain_static",
          [](const Engine& e, std::uint32_t batch, std::uint32_t isl, std::uint32_t osl,
             std::uint32_t prefix, std::uint32_t beam_width, std::uint32_t stride) {
            StaticBreakdown b =
                OrRaise(e.ExplainStatic({batch, isl, osl, prefix, beam_width, 1.0, 1.0}, stride));
            nb::dict parts;
            parts["context"] = std::move(b.context);
            parts["generation"] = std::move(b.generation);
            return parts;
          },
          "batch"_a, "isl"_a, "osl"_a, "prefix"_a = 0, "beam_width"_a = 1, "stride"_a = 32,
          "{\"context\": [OperatorCost], \"generation\": [OperatorCost]}")
      .def(
          "explain_mixed_step",
          [](const Engine& e, std::uint32_t context_tokens, std::uint32_t decodes,
             std::uint32_t isl, std::uint32_t osl, std::uint32_t prefix) {
            MixedBreakdown b =
                OrRaise(e.ExplainMixedStep(Mixed(context_tokens, decodes, isl, osl, prefix)));
            nb::dict parts;
            parts["shared"] = std::move(b.shared);
            parts["context_attention"] = std::move(b.context_attention);
            parts["decode_attention"] = std::move(b.decode_attention);
            return parts;
          },
          "context_tokens"_a, "decodes"_a, "isl"_a, "osl"_a, "prefix"_a = 0,
          "{part: [OperatorCost]} with the parts of MixedCost.")
      .def(
          "explain_decode_step",
          [](const Engine& e, std::uint32_t decodes, std::uint32_t isl, std::uint32_t osl) {
            return OrRaise(e.ExplainDecodeStep(decodes, isl, osl));
          },
          "decodes"_a, "isl"_a, "osl"_a, "A list of OperatorCost.")
      .def(
          "prefill_batch",
          [](const Engine& e, nb::handle batch, nb::handle isl, nb::handle prefix) {
            return PriceArrays(nb::make_tuple(batch, isl, prefix), [&e](const std::vector<Sizes>& s,
                                                                        std::span<double> out) {
              return e.PrefillBatch(SpanOf(s[0]), SpanOf(s[1]), SpanOf(s[2]), out);
            });
          },
          "batch"_a, "isl"_a, "prefix"_a = 0,
          "prefill() of arrays of integers, broadcast against each other: a float64 array of "
          "milliseconds. A shape without an answer gives NaN and a warning. The GIL is released.")
      .def(
          "decode_batch",
          [](const Engine& e, nb::handle batch, nb::handle isl, nb::handle osl) {
            return PriceArrays(nb::make_tuple(batch, isl, osl), [&e](const std::vector<Sizes>& s,
                                                                     std::span<double> out) {
              return e.DecodeBatch(SpanOf(s[0]), SpanOf(s[1]), SpanOf(s[2]), out);
            });
          },
          "batch"_a, "isl"_a, "osl"_a = 2, "decode() of arrays, as prefill_batch.")
      .def(
          "decode_step_batch",
          [](const Engine& e, nb::handle decodes, nb::handle isl, nb::handle osl) {
            return PriceArrays(nb::make_tuple(decodes, isl, osl), [&e](const std::vector<Sizes>& s,
                                                                       std::span<double> out) {
              return e.DecodeStepBatch(SpanOf(s[0]), SpanOf(s[1]), SpanOf(s[2]), out);
            });
          },
          "decodes"_a, "isl"_a, "osl"_a,
          "Milliseconds of decode_step() of arrays, as prefill_batch.")
      .def(
          "mixed_step_batch",
          [](const Engine& e, nb::handle context_tokens, nb::handle decodes, nb::handle isl,
             nb::handle osl, nb::handle prefix) {
            return PriceArrays(nb::make_tuple(context_tokens, decodes, isl, osl, prefix),
                               [&e](const std::vector<Sizes>& s, std::span<double> out) {
                                 std::vector<MixedShape> shapes(out.size());
                                 for (std::size_t i = 0; i < shapes.size(); ++i) {
                                   shapes[i] = Mixed(s[0].data()[i], s[1].data()[i], s[2].data()[i],
                                                     s[3].data()[i], s[4].data()[i]);
                                 }
                                 return e.MixedStepBatch(shapes, out);
                               });
          },
          "context_tokens"_a, "decodes"_a, "isl"_a, "osl"_a, "prefix"_a = 0,
          "Milliseconds of mixed_step() of arrays, as prefill_batch.")
      .def("__getstate__", [](const Engine& e) { return BytesOf(e.spec()); })
      .def("__setstate__", [](Engine& self, const nb::bytes& bytes) {
        new (&self) Engine(OrRaise(Engine::FromSpec(SpecOf(bytes))));
      });

  {
    Record<MemoryEstimate> r(m, "MemoryEstimate",
                             "What fills the memory of one GPU of a worker (GiB = 2^30 bytes).");
    r.Field("weights_gib", &MemoryEstimate::weights_gib, "Weights.")
        .Field("activations_gib", &MemoryEstimate::activations_gib, "Activations of a step.")
        .Field("kvcache_gib", &MemoryEstimate::kvcache_gib, "KV cache of the batch asked for.")
        .Field("communication_gib", &MemoryEstimate::communication_gib, "Communication buffers.")
        .Field("runtime_gib", &MemoryEstimate::runtime_gib, "Reserve of the runtime.")
        .Field("total_gib", &MemoryEstimate::total_gib, "All of it.")
        .Field("capacity_gib", &MemoryEstimate::capacity_gib, "Memory of the GPU.")
        .Field("fits", &MemoryEstimate::fits, "Whether the batch fits, KV budget included.")
        .Field("kv_fits", &MemoryEstimate::kv_fits, "Whether the KV budget holds the batch.")
        .Field("kv_budget_gib", &MemoryEstimate::kv_budget_gib,
               "What the KV cache can hold in all.")
        .Field("kv_tokens", &MemoryEstimate::kv_tokens, "The same in tokens.")
        .Field("kv_bytes_per_token", &MemoryEstimate::kv_bytes_per_token,
               "Bytes that one more token of a long sequence adds on one GPU.")
        .Field("kv_bytes_per_sequence", &MemoryEstimate::kv_bytes_per_sequence,
               "Bytes that a sequence takes whatever its length: recurrent state, buffers, filled "
               "windows.")
        .Field("notes", &MemoryEstimate::notes, "What was assumed of the model.");
    r.cls().def_static(
        "of",
        [](const nb::kwargs& settings) {
          return OrRaise(MemoryEstimate::Of(OptionsOf(settings).memory()));
        },
        "settings"_a,
        "Settings: those of Engine.compile, and batch_size, isl, osl, prefix, beam_width,\n"
        "max_num_tokens (tokens of one step), max_seq_len, memory_fraction.");
  }
}

}  // namespace infercast::python
