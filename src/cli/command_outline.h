// The command line as data: every command with its options, read off the CLI definitions, so that
// shell completion and the manual page cannot differ from what the program accepts.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

// What the value of an option is, as far as a shell can help with it.
enum class ValueKind : unsigned char { kFlag, kText, kNames, kSystem, kModel, kFile };

struct OptionOutline {
  std::vector<std::string> names;  // "--model-path", "--model", "-q"
  std::string description;         // with its default, where it shows one
  std::string placeholder;         // "TEXT", "INT"; "" of flags
  std::string group;               // "Options", "Global options"
  ValueKind kind = ValueKind::kText;
  std::vector<std::string> values;  // of kNames
  bool required = false;
};

struct CommandOutline {
  std::string path;  // "data tables"; "" is the program
  std::string description;
  std::vector<OptionOutline> options;
  std::vector<OptionOutline> positionals;  // names holds one word
  std::vector<std::string> subcommands;    // their last words
};

// The program first, then its commands in depth-first order. Hidden commands are left out.
std::vector<CommandOutline> OutlineOf(const CLI::App& app);

}  // namespace infercast
