# Shared by the tests of what is installed and of the Python package. To be sourced with
#   INFERCAST_ROOT    the source tree
#   INFERCAST_BUILD   the build tree
#   INFERCAST_WORK    a folder that these tests own; the fixture below fills it
#   INFERCAST_PYTHON  the Python that virtual environments are made of
# shellcheck disable=SC2154
set -euo pipefail

root=$INFERCAST_ROOT
work=$INFERCAST_WORK
prefix=$work/prefix
mkdir -p "$work"

# Nothing of the build or source tree may be found by accident.
unset LD_LIBRARY_PATH PYTHONPATH CMAKE_PREFIX_PATH

# make_venv <folder> <requirements file...>: a virtual environment with exactly these pinned packages.
make_venv() {
  local venv=$1 file
  shift
  rm -rf "$venv"
  "$INFERCAST_PYTHON" -m venv "$venv"
  for file in "$@"; do
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-deps --only-binary=:all: \
      --require-hashes -r "$file"
  done
}

install_wheel() {
  "$1/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-deps --no-index "$work"/wheels/infercast-*.whl
}
