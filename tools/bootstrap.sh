# Shared by ./infercast and ./check: installs what the build needs, configures and builds, fetches the data.
# To be sourced by bash, with `root` set to the source tree. Everything it says goes to standard error.
#
# Environment:
#   INFERCAST_SKIP_INSTALL=1  never install Debian packages (they, or equals, are there)
#   INFERCAST_PYTHON=...      the Python (3.11 or later, with venv) for the private environment
#   INFERCAST_JOBS=N          parallel compiler processes (default: the processors, if memory allows)
#   INFERCAST_NO_FETCH=1      never fetch the data package

# shellcheck disable=SC2034,SC2154  # lists and `root` belong to the scripts that source this
ic_packages=(
  g++ cmake ninja-build ca-certificates
  libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libtbb-dev libeigen3-dev
  libsimdjson-dev libcurl4-openssl-dev
  libssl-dev libzip-dev libxxhash-dev patchelf libgtest-dev libgmock-dev libbenchmark-dev
)
ic_full_packages=(python3-dev python3-venv clang-19 clang-tidy-19 clang-tools-19 clang-format-19 libclang-rt-19-dev git chromium)

if [[ ${XDG_CACHE_HOME:-} == /* ]]; then
  ic_cache=$XDG_CACHE_HOME/infercast
else
  ic_cache=${HOME:-/root}/.cache/infercast
fi
ic_venv=$ic_cache/venv

ic_say() { printf 'infercast: %s\n' "$*" >&2; }

ic_fail() {
  printf 'infercast: error: %s\n' "$1" >&2
  exit "${2:-7}"
}

# ic_run_logged <log> <command...>: runs quietly; on failure shows the end of the log.
ic_run_logged() {
  local log=$1
  shift
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 40 "$log" >&2
    return 1
  fi
}

# Debian packages that are not installed, one a line.
ic_missing_packages() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      printf '%s\n' "$package"
  done
}

# A Python that can make virtual environments and for which wheels are pinned.
ic_find_python() {
  local python
  for python in "${INFERCAST_PYTHON:-}" python3 /usr/bin/python3; do
    [[ -n $python ]] || continue
    if "$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
      >/dev/null 2>&1 </dev/null; then
      printf '%s\n' "$python"
      return
    fi
  done
  return 1
}

# ic_install_packages <package...>: makes sure of Debian packages.
ic_install_packages() {
  [[ ${INFERCAST_SKIP_INSTALL:-} != 1 ]] || return 0
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    return 0 # another system: CMake will say what it misses
  fi
  local missing
  mapfile -t missing < <(ic_missing_packages "$@")
  ((${#missing[@]})) || return 0
  local as_root=()
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    else
      ic_fail "these Debian packages are missing; install them and start again:
    sudo apt-get install ${missing[*]}
  (INFERCAST_SKIP_INSTALL=1 goes on without them)"
    fi
  fi
  ic_say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local log
  log=$(mktemp)
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600)
  # A stale or partly unreachable package list may still do: what counts is whether the install works.
  "${apt[@]}" update >"$log" 2>&1 </dev/null || true
  if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    ic_fail "apt-get could not install: ${missing[*]}"
  fi
  rm -f "$log"
}

# The private environment with the pinned wheels.
ic_make_venv() {
  local requirements=$root/tools/requirements-build.txt
  local marker=$ic_venv/.requirements
  mkdir -p "$ic_cache" || ic_fail "cannot create $ic_cache"
  exec {ic_venv_lock}>"$ic_cache/.venv.lock"
  flock "$ic_venv_lock"
  if ! cmp -s "$requirements" "$marker" || [[ ! -x $ic_venv/bin/python3 ]]; then
    local python log
    python=$(ic_find_python) ||
      ic_fail "Python 3.11 to 3.14 with venv is needed (Debian: python3-venv)"
    ic_say "making a private Python environment with Apache Arrow in $ic_venv"
    log=$(mktemp)
    rm -rf "$ic_venv"
    ic_run_logged "$log" "$python" -m venv "$ic_venv" ||
      ic_fail "cannot make a virtual environment in $ic_venv"
    ic_run_logged "$log" "$ic_venv/bin/python3" -m pip install --disable-pip-version-check --no-input \
      --no-cache-dir --no-deps --only-binary=:all: --require-hashes -r "$requirements" ||
      ic_fail "pip could not install the pinned wheels"
    rm -f "$log"
    cp "$requirements" "$marker.new"
    mv "$marker.new" "$marker"
  fi
  exec {ic_venv_lock}>&-
  local found=("$ic_venv"/lib/python3*/site-packages/pyarrow)
  ic_pyarrow=${found[0]}
  [[ -d $ic_pyarrow ]] || ic_fail "no pyarrow in $ic_venv; remove that folder and start again"
}

# Parallel jobs: one per processor, but no more than one per 1.5 GiB of memory that is free.
ic_jobs() {
  if [[ -n ${INFERCAST_JOBS:-} ]]; then
    printf '%s\n' "$INFERCAST_JOBS"
    return
  fi
  local jobs key value by_memory
  jobs=$(nproc 2>/dev/null || echo 1)
  while read -r key value _; do
    if [[ $key == MemAvailable: ]]; then
      by_memory=$((value / 1572864))
      ((by_memory >= 1)) || by_memory=1
      ((jobs <= by_memory)) || jobs=$by_memory
    fi
  done </proc/meminfo
  printf '%s\n' "$jobs"
}

# Shows ninja's progress: a redrawn line on a terminal, else a line every ten seconds.
ic_show_progress() {
  local line last=$SECONDS
  while IFS= read -r line; do
    [[ $line == \[*/*\]* ]] || continue
    if [[ -t 2 ]]; then
      printf '\r\033[Kinfercast: %.100s' "$line" >&2
    elif ((SECONDS - last >= 10)); then
      last=$SECONDS
      ic_say "building ${line%%]*}]"
    fi
  done
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
}

# ic_configure <preset>: configures if that was not done for this place and these libraries.
ic_configure() {
  local preset=$1 build=$root/build/$1 fresh=() log
  if [[ -f $build/build.ninja && ! $root/CMakePresets.json -nt $build/build.ninja ]] &&
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt" &&
    grep -qF "INFERCAST_PYARROW_ROOT:PATH=$ic_pyarrow" "$build/CMakeCache.txt"; then
    return 0
  fi
  [[ ! -e $build/CMakeCache.txt ]] || fresh=(--fresh)
  ic_say "configuring build/$preset"
  mkdir -p "$build"
  log=$build/configure.log
  (cd "$root" && ic_run_logged "$log" cmake "${fresh[@]}" --preset "$preset" \
    -DINFERCAST_PYARROW_ROOT="$ic_pyarrow") || ic_fail "CMake failed; the whole log is $log" 70
}

# ic_build <preset> <target...>
ic_build() {
  local preset=$1 build=$root/build/$1
  shift
  local log=$build/build.log status
  ic_say "building build/$preset ($*)"
  set +e
  cmake --build "$build" -j "$(ic_jobs)" --target "$@" 2>&1 </dev/null | tee "$log" | ic_show_progress
  status=${PIPESTATUS[0]}
  set -e
  if ((status != 0)); then
    grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking)' "$log" | tail -n 60 >&2
    return 1
  fi
}

# Fetches the data package with the program just built; without it, go on: not everything needs it.
ic_fetch_data() {
  [[ ${INFERCAST_NO_FETCH:-} != 1 ]] || return 0
  "$root/build/release/bin/infercast" data fetch >/dev/null </dev/null
}

# Makes the release program ready and leaves a stamp by which the next start sees that nothing changed.
ic_prepare_program() {
  mkdir -p "$root/build/release" || ic_fail "cannot write below $root"
  exec {ic_build_lock}>"$root/build/.lock"
  flock -n "$ic_build_lock" || {
    ic_say "waiting for another build in $root"
    flock "$ic_build_lock"
  }
  local stamp=$root/build/release/.stamp
  # The stamp dates from before the build: what is edited meanwhile counts as newer.
  : >"$stamp.new"
  ic_install_packages "${ic_packages[@]}" $(ic_find_python >/dev/null || echo python3 python3-venv)
  ic_make_venv
  ic_configure release
  ic_build release infercast || ic_fail "the build failed; the whole log is $root/build/release/build.log" 70
  local version
  version=$("$root/build/release/bin/infercast" version) || ic_fail "the program does not start" 70
  version=${version##* }
  # Writing would move the date: write beside, then give it the date of the start.
  printf '%s\n%s\n' "${version%)}" "$ic_pyarrow" >"$stamp.text"
  touch -r "$stamp.new" "$stamp.text"
  mv "$stamp.text" "$stamp"
  rm -f "$stamp.new"
  exec {ic_build_lock}>&-
}
