"""Tests of the installed package. Need the measured data."""

import json
import pathlib
import pickle
import tempfile
import unittest
import warnings

import numpy as np

import infercast
from infercast import errors

QWEN = {
    "model": "Qwen/Qwen3-32B",
    "system": "h200_sxm",
    "backend": "vllm",
    "backend_version": "0.24.0",
    "behaviour": "reference",
    "tp_size": 2,
}


class EngineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = infercast.Engine.compile(**QWEN)

    def test_known_latencies(self):
        self.assertAlmostEqual(self.engine.decode(32, 2048), 13.456241041371072, delta=1e-9)
        self.assertAlmostEqual(self.engine.prefill(batch=4, isl=2048, prefix=512), 329.01270386905037, delta=1e-9)
        cost = self.engine.static(8, 4000, 500)
        self.assertAlmostEqual(cost.context.latency_ms, 1721.8662422437983, delta=1e-9)
        self.assertAlmostEqual(cost.total_ms, 1721.8662422437983 + 5959.2086653939505, delta=1e-8)
        mixed = self.engine.mixed_step(context_tokens=1024, decodes=15, isl=4000, osl=500, prefix=1000)
        self.assertAlmostEqual(mixed.total_ms, 66.1695385972306, delta=1e-9)

    def test_breakdowns_add_up(self):
        parts = self.engine.explain_mixed_step(1024, 15, 4000, 500)
        total = sum(cost.latency_ms for costs in parts.values() for cost in costs)
        self.assertAlmostEqual(total, self.engine.mixed_step(1024, 15, 4000, 500).total_ms, delta=1e-9)
        self.assertEqual(set(parts), {"shared", "context_attention", "decode_attention"})
        step = self.engine.explain_decode_step(16, 4000, 500)
        self.assertIn("latency_ms", step[0].to_dict())
        self.assertIn("OperatorCost(name=", repr(step[0]))

    def test_batches_equal_single_calls(self):
        batch = np.array([[1], [33], [200]])
        isl = np.arange(1000, 1008)
        priced = self.engine.decode_batch(batch, isl, 4)
        self.assertEqual(priced.shape, (3, 8))
        self.assertEqual(priced.dtype, np.float64)
        for i, b in enumerate(batch[:, 0]):
            for j, s in enumerate(isl):
                self.assertEqual(priced[i, j], self.engine.decode(int(b), int(s), 4))
        self.assertEqual(self.engine.prefill_batch([2, 3], 100)[1], self.engine.prefill(3, 100))
        self.assertEqual(self.engine.decode_step_batch(5, 100, [10])[0], self.engine.decode_step(5, 100, 10).latency_ms)
        mixed = self.engine.mixed_step_batch([100, 200], [3, 4], 512, 64)
        self.assertEqual(mixed[1], self.engine.mixed_step(200, 4, 512, 64).total_ms)
        self.assertEqual(self.engine.decode_batch(np.zeros(0, np.uint32), 5).shape, (0,))

    def test_wrong_shapes(self):
        with self.assertRaises(TypeError):
            self.engine.decode_batch([1.5], 100)
        with self.assertRaises(ValueError):
            self.engine.decode_batch([-1], 100)
        with self.assertRaises(TypeError):
            self.engine.decode(-1, 100)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            priced = self.engine.decode_batch([0, 1], [0, 100])
        if np.isnan(priced[0]):
            self.assertEqual(len(caught), 1)
        self.assertFalse(np.isnan(priced[1]))

    def test_spec_round_trip(self):
        spec = self.engine.spec
        self.assertEqual((spec.model, spec.system, spec.backend, spec.version), ("Qwen/Qwen3-32B", "h200_sxm", "vllm", "0.24.0"))
        again = infercast.EngineSpec.from_bytes(spec.to_bytes())
        self.assertEqual(again, spec)
        self.assertEqual(infercast.EngineSpec.from_json(spec.to_json()), spec)
        self.assertEqual(pickle.loads(pickle.dumps(spec)), spec)
        for source in (again, spec.to_bytes()):
            engine = infercast.Engine.from_spec(source, behaviour="reference")
            self.assertEqual(engine.decode(7, 3001), self.engine.decode(7, 3001))
        with self.assertRaises(errors.EngineSpecError):
            infercast.Engine.from_spec(b"\x01\x02")


class ErrorTest(unittest.TestCase):
    def test_kinds(self):
        with self.assertRaises(errors.UnknownNameError) as caught:
            infercast.Engine.compile(**{**QWEN, "system": "h200_sxn"})
        self.assertEqual(caught.exception.kind, "unknown_name")
        self.assertIsInstance(caught.exception, infercast.InfercastError)
        with self.assertRaises(errors.InvalidArgumentError):
            infercast.Engine.compile(**{**QWEN, "tp_size": 3})
        with self.assertRaises(errors.UnknownNameError) as caught:
            infercast.Engine.compile(**QWEN, tp_sise=3)
        self.assertIn("tp_size", str(caught.exception))
        with self.assertRaises(errors.DoesNotFitError):
            infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", batch_size=100000)

    def test_every_kind_has_one_class(self):
        kinds = {kind: cls for kind, cls in errors._BY_KIND.items()}
        self.assertIs(errors.of_kind("perf_database"), errors.PerfDatabaseError)
        self.assertIs(errors.of_kind("no such kind"), errors.InfercastError)
        self.assertEqual(len(kinds), len(set(kinds.values())))


class ForecastTest(unittest.TestCase):
    def test_estimate(self):
        forecast = infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", isl=1024, osl=1024, batch_size=64, tp_size=2)
        self.assertEqual(forecast.mode, "agg")
        self.assertGreater(forecast.ttft_ms, 0)
        self.assertEqual([w.role for w in forecast.workers], ["worker"])
        self.assertEqual(forecast.workers[0].parallelism.tp, 2)
        self.assertIn("mix_step", [phase.name for phase in forecast.phases])
        static = infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", estimate_mode="static", batch_size=8, tp_size=2)
        self.assertAlmostEqual(static.ttft_ms, static.context_latency_ms)
        disagg = infercast.estimate(
            "Qwen/Qwen3-32B", "h200_sxm", estimate_mode="disagg", prefill_tp_size=1, prefill_batch_size=1,
            prefill_num_workers=2, decode_tp_size=2, decode_batch_size=32, decode_num_workers=1,
        )  # fmt: skip
        self.assertEqual([(w.role, w.workers) for w in disagg.workers], [("prefill", 2), ("decode", 1)])
        self.assertEqual(disagg.num_gpus, 4)

    def test_estimates_are_scored_by_a_run_or_by_the_formula(self):
        question = {"isl": 1024, "osl": 512, "batch_size": 32, "tp_size": 2}
        run = infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", **question)
        self.assertEqual(run.scored_by, "closed_loop")
        self.assertEqual((run.serving.concurrency, run.serving.rate, run.serving.requests), (32, None, 320))
        self.assertEqual(run.ttft_ms, run.serving.ttft_ms.mean)
        self.assertLessEqual(run.serving.ttft_ms.median, run.serving.ttft_ms.p99)
        self.assertLess(run.serving.tpot_interval_ms.low, run.tpot_ms)
        self.assertAlmostEqual(sum(run.serving.ttft_parts_ms.to_dict().values()), run.ttft_ms, delta=1e-6)
        self.assertEqual(run.to_dict()["serving"]["ttft_ms"]["mean"], run.ttft_ms)
        formula = infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", **question, score="formula")
        self.assertEqual((formula.scored_by, formula.serving), ("formula", None))
        self.assertEqual(formula.ttft_ms, run.formula.ttft_ms)
        self.assertNotEqual(formula.ttft_ms, run.ttft_ms)
        reference = infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", **question, behaviour="reference")
        self.assertEqual(reference.scored_by, "formula")
        few = infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", **question, concurrency=2)
        self.assertLess(few.ttft_ms, run.ttft_ms)
        opened = infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", **question, rate=2.0, num_requests=50, no_corrections=True)
        self.assertEqual((opened.serving.concurrency, opened.serving.rate, opened.serving.requests), (None, 2.0, 50))
        frame = run.to_pandas()
        self.assertEqual(frame["serving_ttft_ms_p99"][0], run.serving.ttft_ms.p99)
        self.assertEqual(frame["formula_ttft_ms"][0], run.formula.ttft_ms)
        with self.assertRaises(errors.InvalidArgumentError):
            infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", **question, concurrency=2.5)
        with self.assertRaises(errors.InvalidArgumentError):
            infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", **question, score="closed-loop", behaviour="reference")
        with self.assertRaises(errors.UnknownNameError):
            infercast.estimate("Qwen/Qwen3-32B", "h200_sxm", **question, score="closed")

    def test_sweep_and_tables(self):
        result = infercast.sweep("Qwen/Qwen3-32B", "h200_sxm", backend="vllm", total_gpus=8, isl=2000, osl=200)
        self.assertEqual({e.name for e in result.experiments}, {"agg", "disagg"})
        self.assertEqual(result.best.name, result.chosen)
        rows = result.to_rows()
        self.assertEqual(rows[0]["experiment"], result.chosen)
        self.assertEqual(rows[0]["rank"], 1)
        self.assertLessEqual(result.best.best[0].num_gpus, 8)
        self.assertEqual(rows[0]["scored_by"], "closed_loop")
        self.assertEqual(rows[0]["ttft_ms"], rows[0]["serving_ttft_ms_mean"])
        formula = infercast.sweep("Qwen/Qwen3-32B", "h200_sxm", backend="vllm", total_gpus=8, isl=2000, osl=200, score="formula")
        self.assertEqual(formula.best.best[0].scored_by, "formula")
        self.assertIsNone(formula.best.best[0].serving)
        frame = result.to_pandas()
        self.assertEqual(len(frame), len(rows))
        self.assertIn("tokens_per_s_per_gpu", frame.columns)
        front = result.best.front
        ordered = sorted(front, key=lambda f: f.tokens_per_s_per_user)
        rates = [f.tokens_per_s_per_gpu for f in ordered]
        self.assertEqual(rates, sorted(rates, reverse=True))

    def test_recommend(self):
        found = infercast.recommend("Qwen/Qwen3-32B", "h200_sxm", backend="vllm", request_rate=20, isl=2000, osl=200)
        best = found.best.best[0]
        self.assertGreaterEqual(best.requests_per_s * best.replicas, 20 * 0.999)
        self.assertEqual(best.total_gpus, best.num_gpus * best.replicas)
        with self.assertRaises(errors.InvalidArgumentError):
            infercast.recommend("Qwen/Qwen3-32B", "h200_sxm")

    def test_grid(self):
        grid = infercast.sweep_grid(["Qwen/Qwen3-32B", "no-such-model"], "h200_sxm", workloads=[(1000, 100)], modes=["agg"])
        self.assertGreater(len(grid.rows), 0)
        self.assertEqual([e["model"] for e in grid.errors], ["no-such-model"])
        self.assertEqual(len(grid.to_pandas()), len(grid.rows))

    def test_ray_is_optional(self):
        try:
            import ray  # noqa: F401
        except ImportError:
            import infercast.ray

            with self.assertRaisesRegex(ImportError, r"pip install 'infercast\[ray\]'"):
                infercast.ray.sweep("Qwen/Qwen3-32B", "h200_sxm")
        else:
            self.skipTest("Ray is installed")


class OtherTest(unittest.TestCase):
    def test_unlisted_architecture_in_a_directory(self):
        config = {
            "architectures": ["MistralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32768, "max_position_embeddings": 32768,
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text(json.dumps(config))
            forecast = infercast.estimate(folder, "h200_sxm", backend="vllm", batch_size=8)
            self.assertGreater(forecast.tpot_ms, 0)
            self.assertIn("MistralForCausalLM", forecast.notes[0])
            memory = infercast.MemoryEstimate.of(model=folder, system="h200_sxm", backend="vllm")
            self.assertIn("MistralForCausalLM", memory.notes[0])
            self.assertEqual((memory.kv_bytes_per_token, memory.kv_bytes_per_sequence), (32 * 8 * 128 * 2 * 2, 0))

    def test_memory(self):
        memory = infercast.MemoryEstimate.of(**QWEN, batch_size=16, max_num_tokens=8192)
        self.assertTrue(memory.fits)
        parts = memory.weights_gib + memory.activations_gib + memory.kvcache_gib + memory.communication_gib + memory.runtime_gib
        self.assertAlmostEqual(parts, memory.total_gib, delta=1e-9)

    def test_online(self):
        engine = infercast.Engine.compile(**QWEN)
        model = infercast.OnlineModel.from_engine(engine, min_observations=3)
        step = infercast.ForwardPassMetrics(num_decode_requests=32, sum_decode_kv_tokens=64000)
        native = engine.forward_pass(num_decode_requests=32, sum_decode_kv_tokens=64000)
        self.assertEqual(model.estimate(step), native)
        step.wall_time_s = 0.9 * native / 1e3
        for _ in range(3):
            model.observe([step])
        self.assertAlmostEqual(model.estimate(step), 0.9 * native, delta=1e-9)
        self.assertEqual(model.diagnostics().source, "aic_with_correction")
        regression = infercast.OnlineModel.from_regression()
        self.assertIsNone(regression.estimate(step))
        iterations = infercast.parse_metrics('[[{"scheduled_requests": {"num_decode_requests": 2, "sum_decode_kv_tokens": 5}}]]')
        self.assertEqual(iterations[0][0].sum_decode_kv_tokens, 5)

    def test_lists_and_options(self):
        self.assertIn("h200_sxm", infercast.systems())
        self.assertIn("Qwen/Qwen3-32B", infercast.models())
        self.assertTrue(infercast.versions("h200_sxm", "vllm"))
        self.assertIn("tp_size", infercast.option_names())


if __name__ == "__main__":
    unittest.main()
