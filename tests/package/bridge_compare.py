"""Run by bridge_test.sh: the descriptions that the reference wrote, priced here."""

import base64
import json
import math
import pathlib
import sys

import infercast


def same(theirs, ours):
    if isinstance(theirs, dict) or isinstance(ours, infercast.InfercastError):
        return isinstance(theirs, dict) and isinstance(ours, infercast.InfercastError)
    return math.isclose(theirs, ours, rel_tol=1e-9, abs_tol=1e-12)


def ask(call, arguments):
    try:
        return call(*arguments)
    except infercast.InfercastError as error:
        return error


def main():
    recorded = json.loads((pathlib.Path(sys.argv[1]) / "cases.json").read_text())
    compared = answered = different = 0
    for case in recorded["cases"]:
        spec = base64.b64decode(case["spec"])
        assert infercast.EngineSpec.from_bytes(spec).to_bytes() == spec, case["id"]
        engine = infercast.Engine.from_spec(spec, behaviour="reference")
        for kind, questions in recorded["questions"].items():
            for question, theirs in zip(questions, case["answers"][kind]):
                ours = ask(getattr(engine, kind), question)
                compared += 1
                answered += not isinstance(theirs, dict)
                if not same(theirs, ours):
                    different += 1
                    print(f"{case['id']} {case['model']} {kind}{tuple(question)}: reference {theirs}, here {ours!r}")
    print(f"{len(recorded['cases'])} models, {compared} questions, {answered} with a latency, {different} different")
    assert answered > 0
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
