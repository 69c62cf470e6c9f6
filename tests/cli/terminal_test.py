"""What the program shows on a terminal, and how it ends on Ctrl-C. Usage: terminal_test.py PROGRAM

Runs the program on a pseudo-terminal over the invented system of the test fixtures, where a search of
some hundred thousand points takes long enough to be interrupted: the test waits for the first progress,
not for a time.
"""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
TOY = ["--systems-paths", str(ROOT / "tests/golden/fixtures/toy")]
SECONDS = 240  # nothing here takes a tenth of it; ends a program that hangs

MODEL = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 8, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 32000, "num_experts": 16, "num_experts_per_tok": 4,
    "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
}


class TerminalTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "model").mkdir()
        (self.path / "model/config.json").write_text(json.dumps(MODEL))
        self.deployment = ["--model", str(self.path / "model"), "--system", "toy_sxm", "--database-mode", "SOL", *TOY]
        # Minutes of work for one thread.
        self.long = ["sweep", *self.deployment, "--gpus", "1024", "--mode", "all", "--threads", "1",
                     "--isl", "100000", "--osl", "20000", "--ttft", "1e9", "--tpot", "1e9", "--chunked-prefill",
                     "--afd-max-candidates", "10000000", "--afd-max-a-batch-size", "100000"]

    def on_terminal(self, arguments, when_seen=None, then=None, environment=None):
        """Exit code, standard output (a pipe), and standard error (a terminal). Calls then(process) once the
        terminal has shown the pattern."""
        ours, theirs = pty.openpty()
        out = self.path / "out"
        with out.open("wb") as stream:
            process = subprocess.Popen([PROGRAM, *arguments], stdout=stream, stderr=theirs, stdin=subprocess.DEVNULL,
                                       env={**os.environ, "TERM": "xterm", **(environment or {})}, start_new_session=True)
        os.close(theirs)
        killer = threading.Timer(SECONDS, process.kill)
        killer.start()
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            shown += piece
            if then is not None and re.search(when_seen, shown):
                then(process)
                then = None
        os.close(ours)
        code = process.wait()
        killer.cancel()
        self.assertIsNone(then, f"never shown: {when_seen}; but {shown[-500:]}")
        return code, out.read_text(), shown.decode()

    def test_progress_is_for_terminals_only(self):
        search = ["sweep", *self.deployment, "--gpus", "4"]
        code, out, shown = self.on_terminal(search)
        self.assertEqual(code, 0)
        self.assertRegex(shown, r"searching \[#")
        wiped = shown.rpartition("\r\x1b[K")
        self.assertNotIn("[#", wiped[2])  # nothing of it stays; notes may follow
        self.assertTrue(wiped[1], repr(shown[-80:]))
        self.assertNotIn("\x1b", out)
        code, again, shown = self.on_terminal([*search, "--quiet"])
        self.assertEqual((code, shown), (0, ""))
        self.assertEqual(again, out)
        piped = subprocess.run([PROGRAM, *search], capture_output=True, text=True, timeout=SECONDS, check=True)
        self.assertEqual(piped.stdout, out)
        self.assertNotIn("searching", piped.stderr)

    def test_colours_are_for_terminals_that_want_them(self):
        """The plot on standard output: on a pseudo-terminal in colour, unless NO_COLOR is set."""
        def plot(environment):
            ours, theirs = pty.openpty()
            process = subprocess.Popen([PROGRAM, "sweep", *self.deployment, "--gpus", "4", "--plot", "-q"], stdout=theirs,
                                       stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                       env={**os.environ, "TERM": "xterm-256color", **environment})
            os.close(theirs)
            shown = b""
            while True:
                try:
                    piece = os.read(ours, 65536)
                except OSError:
                    break
                if not piece:
                    break
                shown += piece
            os.close(ours)
            self.assertEqual(process.wait(timeout=SECONDS), 0)
            return shown.decode()

        self.assertIn("\x1b[", plot({"NO_COLOR": ""}))  # set but empty does not count
        plain = plot({"NO_COLOR": "1"})
        self.assertNotIn("\x1b", plain)
        self.assertIn("tokens/s per user", plain)

    def interrupt(self, arguments, seen=rb"searching \[[#.]+\] [1-9]"):
        return self.on_terminal(arguments, seen, lambda process: process.send_signal(signal.SIGINT))

    def test_ctrl_c_ends_a_search_with_the_best_so_far(self):
        saved, page = self.path / "saved", self.path / "page.html"
        before = set(self.path.iterdir())
        code, out, shown = self.interrupt([*self.long, "--save-dir", str(saved), "--html", str(page)])
        self.assertEqual(code, 130)
        self.assertIn("interrupted", shown)
        if out:  # something was found before
            self.assertIn("interrupted: this is the best of what was searched; no file was written", shown)
        # No file, whole or in part.
        self.assertEqual(set(self.path.iterdir()) - before, {self.path / "out"})

    def test_ctrl_c_ends_the_support_matrix(self):
        code, _, shown = self.interrupt(["support", "--model", "all", "--system", "toy_sxm", *TOY], rb"\] 1/[0-9]+")
        self.assertEqual(code, 130)
        self.assertRegex(shown, r"interrupted: [0-9]+ of [0-9]+ were not looked at")

    def test_ctrl_c_ends_sizing_for_a_load(self):
        """One system is sized in a moment, so many copies of it are compared."""
        root = self.path / "root"
        shutil.copytree(ROOT / "tests/golden/fixtures/toy", root)
        names = [f"toy_{i}" for i in range(300)]
        for name in names:
            shutil.copy(root / "toy_sxm.yaml", root / f"{name}.yaml")
        arguments = ["recommend", "--model", str(self.path / "model"), "--system", ",".join(names), "--database-mode",
                     "SOL", "--systems-paths", str(root), "--target-request-rate", "1000", "--isl", "100000", "--osl", "20000",
                     "--ttft", "1e9", "--tpot", "1e9", "--threads", "1"]
        code, out, shown = self.interrupt(arguments)
        self.assertEqual(code, 130)
        self.assertIn("interrupted", shown)
        self.assertNotIn(names[-1], out)


if __name__ == "__main__":
    unittest.main()
