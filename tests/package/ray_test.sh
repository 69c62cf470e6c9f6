#!/usr/bin/env bash
# infercast.ray.sweep on a local Ray of two workers equals the local sweep.
source "$(dirname "$0")/common.sh"

make_venv "$work/ray-venv" "$root/tools/requirements-ray.txt"
install_wheel "$work/ray-venv"
cd "$work"
# A busy machine may take minutes to start Ray; a local cluster of this test needs no token.
RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=disabled RAY_raylet_start_wait_time_s=600 "$work/ray-venv/bin/python" "$root/tests/package/ray_test.py"
