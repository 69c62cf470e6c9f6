#!/usr/bin/env bash
# Engine descriptions that the reference package writes give the same latencies here.
source "$(dirname "$0")/common.sh"

make_venv "$work/reference-venv" "$root/tools/requirements-reference.txt"
make_venv "$work/bridge-venv" "$root/tools/requirements-python.txt"
install_wheel "$work/bridge-venv"
cd "$work"
rm -rf "$work/specs"
mkdir -p "$work/specs"
"$work/reference-venv/bin/python" "$root/tests/package/bridge_write.py" "$work/specs"
systems=$("$work/reference-venv/bin/python" -c \
  'import aiconfigurator_core, pathlib; print(pathlib.Path(aiconfigurator_core.__file__).parent / "systems")')
INFERCAST_SYSTEMS_PATH=$systems "$work/bridge-venv/bin/python" "$root/tests/package/bridge_compare.py" "$work/specs"
