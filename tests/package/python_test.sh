#!/usr/bin/env bash
# The wheel in a clean virtual environment: the tests of bindings/python/tests and the example, with another version of
# pyarrow loaded in the same process.
source "$(dirname "$0")/common.sh"

make_venv "$work/venv" "$root/tools/requirements-python.txt"
install_wheel "$work/venv"
# The reference in docs/ is what the tool writes from this wheel's stubs.
stubs=$(echo "$work"/venv/lib/python3*/site-packages/infercast/_core.pyi)
"$work/venv/bin/python" "$root/tools/make_api_reference.py" --check --stubs "$stubs"
cd "$work" # not the source tree: its infercast folder has no compiled module
"$work/venv/bin/python" -m unittest discover -v -s "$root/bindings/python/tests" -p 'test_*.py'
MPLCONFIGDIR=$work/mpl "$work/venv/bin/python" - "$root/examples/python/pareto_front.py" "$work/pareto_front.png" <<'PY'
import runpy
import sys

import pyarrow as pa
import pyarrow.parquet as pq

# Files, not Python buffers: pyarrow's threads may drop those while the interpreter ends, and abort it.
table = pa.table({"x": [1, 2, 3]})
pq.write_table(table, "table.parquet")
script, target = sys.argv[1:]
sys.argv = [script, target]
runpy.run_path(script, run_name="__main__")
assert pq.read_table("table.parquet").equals(table)
libraries = {line.split()[-1].rsplit("/", 1)[-1] for line in open("/proc/self/maps") if ".so" in line}
assert any(name.startswith("libarrow.so.2100") for name in libraries), libraries
assert any(name.startswith("libinfercast_arrow.so") for name in libraries), libraries
PY
[[ -s $work/pareto_front.png ]]
