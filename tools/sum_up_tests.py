"""Sums up what ./check ran: single GoogleTest tests, other ctest entries, and stages.

usage: sum_up_tests.py DIRECTORY

DIRECTORY holds for each preset <preset>/ctest.xml (ctest --output-junit) and <preset>/gtest/*.xml (GTEST_OUTPUT), and
perhaps a file `stages` of lines "passed <name>" and "failed <name>". Prints the failures by name and, last, the line
"N passed, N failed". Exit code 1 when something failed or nothing ran.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def read_xml(path):
    try:
        return ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None  # a program that died before it wrote its report


def sum_up_preset(folder):
    """Returns (passed, skipped, failures by name) of one preset."""
    passed, skipped, failures = 0, 0, []
    suites = read_xml(folder / "ctest.xml")
    if suites is None:
        return 0, 0, [f"{folder.name}: ctest gave no report"]
    for entry in suites.iter("testcase"):
        program = entry.get("name")
        succeeded = entry.get("status") == "run"
        report = read_xml(folder / "gtest" / f"{program}.xml")
        failed_inside = 0
        if report is not None:
            for test in report.iter("testcase"):
                if test.get("status") == "notrun" or test.get("result") == "skipped":
                    skipped += 1
                elif test.find("failure") is not None:
                    failed_inside += 1
                    failures.append(f"{folder.name}: {test.get('classname')}.{test.get('name')}")
                else:
                    passed += 1
        elif succeeded:
            passed += 1
        if not succeeded and failed_inside == 0:
            failures.append(f"{folder.name}: {program} ({entry.get('status')})")
    return passed, skipped, failures


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    results = pathlib.Path(sys.argv[1])
    passed, skipped, failures = 0, 0, []
    for folder in sorted(path for path in results.iterdir() if (path / "gtest").is_dir()):
        more_passed, more_skipped, more_failures = sum_up_preset(folder)
        passed += more_passed
        skipped += more_skipped
        failures += more_failures
    stages = results / "stages"
    if stages.exists():
        for line in stages.read_text().splitlines():
            verdict, name = line.split(" ", 1)
            if verdict == "passed":
                passed += 1
            else:
                failures.append(name)
    if failures:
        print("\nFailed:")
        for name in failures:
            print(f"  {name}")
    print()
    if skipped:
        print(f"{passed} passed, {len(failures)} failed, {skipped} skipped")
    else:
        print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
