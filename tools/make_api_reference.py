#!/usr/bin/env python3
"""Writes docs/api-reference.md from the public headers and, given type stubs, docs/python-reference.md.

    tools/make_api_reference.py                    writes docs/api-reference.md
    tools/make_api_reference.py --stubs <_core.pyi>  also writes docs/python-reference.md, from the stubs of a built wheel
    tools/make_api_reference.py --check ...          writes nothing and fails when a file is not what its sources say

A header is its own documentation: its opening comment becomes text, the declarations stay code.
"""

import argparse
import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADERS = ["error.h", "database.h", "model_options.h", "spec.h", "engine.h", "memory.h", "forecast.h", "online.h", "named_options.h", "config.h"]
BOILERPLATE = ("#pragma once", "#include", "namespace infercast {", "INFERCAST_INLINE namespace", "}  // namespace")


def split_comment(lines):
    """The opening // comment as text lines, and the rest."""
    text = []
    while lines and lines[0].startswith("//"):
        text.append(lines.pop(0)[2:].removeprefix(" "))
    return text, lines


def header_section(path):
    text, lines = split_comment(path.read_text().splitlines())
    code = [line for line in lines if not line.startswith(BOILERPLATE)]
    # Runs of blank lines that the boilerplate leaves become one.
    body = []
    for line in code:
        if line or (body and body[-1]):
            body.append(line)
    prose, example = [], []
    for line in text:
        (example if line.startswith("  ") else prose).append(line)
    out = [f"## `infercast/{path.name}`", "", *prose, ""]
    if example:
        out += ["```cpp", *(line[2:] for line in example), "```", ""]
    return out + ["```cpp", *"\n".join(body).strip().splitlines(), "```", ""]


def c_section(path):
    text = path.read_text()
    comment, rest = text[2:].split("*/", 1)
    prose = [line.strip().removeprefix("*").strip() for line in comment.strip().splitlines()]
    return ["## `infercast.h` (C)", "", *prose, "", "```c", *rest.strip().splitlines(), "```", ""]


def api_reference():
    out = [
        "# C++ and C reference",
        "",
        "Written by `tools/make_api_reference.py` from the public headers; [api.md](api.md) is the introduction.",
        "`#include \"infercast/infercast.hpp\"` includes all C++ headers.",
        "",
    ]
    for name in HEADERS:
        out += header_section(ROOT / "include" / "infercast" / name)
    out += c_section(ROOT / "include" / "infercast.h")
    return "\n".join(out).rstrip() + "\n"


def signature(node):
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){returns}"


def python_reference(stubs):
    out = [
        "# Python reference",
        "",
        "Written by `tools/make_api_reference.py` from the package's type stubs and docstrings; [python.md](python.md) is the introduction.",
        "",
    ]
    for title, source in (("Forecasts of deployments", ROOT / "bindings/python/infercast/_api.py"), ("Compiled part", stubs), ("Ray", ROOT / "bindings/python/infercast/ray.py")):
        out += [f"## {title}", ""]
        for node in ast.parse(source.read_text()).body:
            if isinstance(node, ast.ClassDef):
                out += [f"### `{node.name}`", "", ast.get_docstring(node) or "", ""]
                for member in node.body:
                    if not isinstance(member, ast.FunctionDef) or member.name.startswith("_"):
                        continue
                    doc = " ".join((ast.get_docstring(member) or "").split())
                    if any("property" in ast.unparse(d) for d in member.decorator_list):
                        kind = ast.unparse(member.returns) if member.returns else ""
                        out.append(f"- `{member.name}`: {kind}. {doc}".rstrip())
                    elif not any("setter" in ast.unparse(d) for d in member.decorator_list):
                        out.append(f"- `{signature(member)}` {doc}".rstrip())
                out.append("")
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if source == stubs and node.name in ("estimate", "sweep", "recommend"):
                    continue  # the package wraps these
                out += [f"### `{node.name}`", "", "```python", signature(node), "```", "", ast.get_docstring(node) or "", ""]
    return "\n".join(line.rstrip() for line in "\n".join(out).splitlines()).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--stubs", type=pathlib.Path)
    arguments = parser.parse_args()
    wanted = {"api-reference.md": api_reference()}
    if arguments.stubs:
        wanted["python-reference.md"] = python_reference(arguments.stubs)
    for name, text in wanted.items():
        target = ROOT / "docs" / name
        if not arguments.check:
            target.write_text(text)
        elif target.read_text() != text:
            sys.exit(f"docs/{name} is not what its sources say: run tools/make_api_reference.py")


if __name__ == "__main__":
    main()
