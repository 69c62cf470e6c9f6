#!/usr/bin/env bash
# Installs the build into a prefix of its own and makes the Python wheel from what was installed.
source "$(dirname "$0")/common.sh"

rm -rf "$prefix" "$work/wheels" "$work/wheel-build"
cmake --install "$INFERCAST_BUILD" --prefix "$prefix" >"$work/install.log"
make_venv "$work/build-venv" "$root/tools/requirements-python.txt"
"$work/build-venv/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --no-index \
  -w "$work/wheels" \
  -C cmake.define.CMAKE_PREFIX_PATH="$prefix" -C cmake.define.infercast_ROOT="$prefix" -C build-dir="$work/wheel-build" \
  -C cmake.define.CMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" \
  "$root/bindings/python"
ls "$work"/wheels/infercast-*.whl
