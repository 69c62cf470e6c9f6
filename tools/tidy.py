#!/usr/bin/env python3
"""Runs clang-tidy over the sources of a build, but only over those it has not found clean as they are now.

    python3 tools/tidy.py [--build build/release] [--stamps build/tidy] [--jobs N] [folder ...]

A source counts as seen when neither it, nor a header of the project that it includes (as the build recorded), nor the
settings have changed since. Prints the findings; exit code 1 when there are any.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def recorded_headers(build):
    """Object file -> paths of the files it was made from, from ninja's log."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True,
                          check=False).stdout  # not zero where a source was never built
    headers, current = {}, []
    for line in text.splitlines():
        if line.startswith("    "):
            current.append((build / line.strip()).resolve())
        elif ": #deps" in line:
            current = headers.setdefault(line.split(": #deps")[0], [])
    return headers


def digest(paths):
    state = hashlib.sha256()
    for path in sorted(set(paths)):
        state.update(str(path.relative_to(ROOT)).encode() + b"\0")
        state.update(hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def look(tidy, build, source):
    # The options are GCC's: Clang is not to complain that it does not know one, nor of GCC's own library.
    done = subprocess.run([tidy, "-p", build, "--quiet", "--extra-arg=-Wno-unknown-warning-option",
                           "--extra-arg=-Wno-deprecated-declarations", source],
                          capture_output=True, text=True, check=False)
    return done.returncode == 0 and not done.stdout.strip(), done.stdout or done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", default=["src", "benchmarks"])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--stamps", type=pathlib.Path, default=ROOT / "build/tidy")
    parser.add_argument("--tidy", default="clang-tidy-19")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    build = options.build.resolve()

    headers = recorded_headers(build)
    stale = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"]).resolve()
        name = source.relative_to(ROOT)
        if name.parts[0] not in options.folders or not source.exists():
            continue
        made = re.search(r" -o (\S+)", entry["command"])
        inputs = [path for path in headers.get(made.group(1) if made else "", [])
                  if path.is_relative_to(ROOT) and not path.is_relative_to(build) and path.exists()]
        if not inputs:  # never built: every header counts
            inputs = list(ROOT.glob("src/**/*.h"))
        seen = digest([*inputs, source, ROOT / ".clang-tidy"])
        stamp = options.stamps / f"{name}.clean"
        if not stamp.exists() or stamp.read_text() != seen:
            stale.append((source, name, stamp, seen))

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        looks = {pool.submit(look, options.tidy, build, source): (name, stamp, seen)
                 for source, name, stamp, seen in stale}
        for done in concurrent.futures.as_completed(looks):
            name, stamp, seen = looks[done]
            clean, text = done.result()
            if clean:
                stamp.parent.mkdir(parents=True, exist_ok=True)
                stamp.write_text(seen)
            else:
                bad += 1
                print(f"{name}:\n{text}", flush=True)
    print(f"{len(stale)} sources looked at, {bad} with findings", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
