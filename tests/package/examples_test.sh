#!/usr/bin/env bash
# The C++ and C examples against the installed package, and the installed program.
source "$(dirname "$0")/common.sh"

for example in cpp c; do
  rm -rf "$work/example-$example"
  cmake -S "$root/examples/$example" -B "$work/example-$example" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$prefix" >"$work/example-$example.log"
  cmake --build "$work/example-$example" >>"$work/example-$example.log" || { cat "$work/example-$example.log"; exit 1; }
done
"$work/example-cpp/capacity_plan" | tee "$work/capacity_plan.out"
grep -q 'best on 8 GPUs: ' "$work/capacity_plan.out"
"$work/example-c/scheduler" | tee "$work/scheduler.out"
grep -q 'after 8 observations' "$work/scheduler.out"
"$prefix/bin/infercast" version

# No library of the original names is loaded, and only the interface is exported.
for file in "$prefix"/lib*/libinfercast.so "$prefix/bin/infercast"; do
  if ldd "$file" | grep -E '\blib(arrow|parquet)\.so'; then
    echo "$file loads libarrow or libparquet under the original name"
    exit 1
  fi
done
leaked=$(nm -D --defined-only --demangle "$prefix"/lib*/libinfercast.so | awk '{print $3, $4, $5}' |
  grep -vE '^(infercast_|infercast::v1::|(typeinfo|vtable) (name )?for infercast::v1::)' || true)
if [[ -n $leaked ]]; then
  printf 'exported besides the interface:\n%s\n' "$leaked"
  exit 1
fi
