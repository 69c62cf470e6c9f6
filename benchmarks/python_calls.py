"""Cost of calls from Python: of one Engine.decode, and of a million shapes in one call, in processor time.

    python benchmarks/python_calls.py [--reference]

The overhead of a call is what a loop takes beyond the same shapes priced in one batch call, which runs in C++ alone. The shapes
of the batch are those of bench_api_benchmark's DecodeMillionShapes. With --reference the reference package, installed in the same
environment, is asked for the same figures.
"""

import argparse
import time

import numpy as np

import infercast


def seconds(work):
    """The best of five, in processor time of this thread."""
    best = float("inf")
    for _ in range(5):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


def loop(call, count):
    def work():
        for _ in range(count):
            call(32, 2048)

    return seconds(work) / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reference", action="store_true")
    arguments = parser.parse_args()

    engine = infercast.Engine.compile(model="Qwen/Qwen3-32B", system="h200_sxm", backend="vllm", tp_size=2)
    count = 50_000
    single = loop(engine.decode, count)
    sizes = np.full(count, 32, np.uint32)
    inside = seconds(lambda: engine.decode_batch(sizes, 2048)) / count
    print(f"decode(32, 2048): {single * 1e6:.3f} us, of which {(single - inside) * 1e6:.3f} us beyond C++")

    index = np.arange(1_000_000, dtype=np.uint32)
    batch = 1 + index * np.uint32(7919) % np.uint32(256)
    isl = 64 + index * np.uint32(104729) % np.uint32(8128)
    million = seconds(lambda: engine.decode_batch(batch, isl))
    print(f"decode_batch of 1000000 shapes: {million * 1e3:.0f} ms")

    if arguments.reference:
        import aiconfigurator_core

        reference = aiconfigurator_core.AicEngine.from_spec(engine.spec.to_bytes())
        ours = infercast.Engine.from_spec(engine.spec.to_bytes(), behaviour="reference")
        assert abs(reference.predict_decode_latency(32, 2048) - ours.decode(32, 2048)) < 1e-9
        theirs = loop(lambda b, s: reference.predict_decode_latency(b, s), 2_000)
        ours_call = loop(lambda b, s: ours.decode(b, s), count)
        print(f"the same call: reference {theirs * 1e6:.2f} us, infercast {ours_call * 1e6:.2f} us: {theirs / ours_call:.1f} times")


if __name__ == "__main__":
    main()
