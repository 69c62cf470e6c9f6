// The scripts look at the words before the cursor: they find the command that the words name, offer
// its subcommands and options, and after an option that takes one of a few values, these. Names of
// systems and models come from the program itself (`infercast completion --list ...`).
#include "cli/shell_completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace infercast {
namespace {

std::string Joined(const std::vector<std::string>& words, std::string_view separator = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(separator)) + word;
  return text;
}

// Options of `command` with those of the program, which may stand after a command too.
std::vector<const OptionOutline*> OptionsAt(const CommandOutline& command,
                                            std::span<const CommandOutline> commands) {
  std::vector<const OptionOutline*> options;
  for (const OptionOutline& option : command.options) options.push_back(&option);
  if (command.path.empty()) return options;
  for (const OptionOutline& option : commands.front().options) {
    const bool own = std::ranges::any_of(
        command.options, [&](const OptionOutline& o) { return o.names == option.names; });
    if (!own && option.group == "Global options") options.push_back(&option);
  }
  return options;
}

std::string WordsAt(const CommandOutline& command, std::span<const CommandOutline> commands) {
  std::vector<std::string> words = command.subcommands;
  for (const OptionOutline* option : OptionsAt(command, commands)) {
    words.insert(words.end(), option->names.begin(), option->names.end());
  }
  return Joined(words);
}

// Single-quoted for a POSIX shell and fish; fish alone also reads backslashes inside.
std::string Quoted(std::string_view text, bool fish = false) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += fish ? "\\'" : "'\\''";
    } else if (c == '\\' && fish) {
      quoted += "\\\\";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

// Cases "--backend) ... ;;" of all options that take a value; `offer` makes the action of a list of
// plain words or of a command substitution.
template <typename Offer>
std::string ValueCases(std::span<const CommandOutline> commands, std::string_view file_action,
                       const Offer& offer) {
  std::map<std::string, std::vector<std::string>> by_action;
  std::map<std::string, bool> seen;
  for (const CommandOutline& command : commands) {
    for (const OptionOutline& option : command.options) {
      std::string action;
      switch (option.kind) {
        case ValueKind::kFlag:
          continue;
        case ValueKind::kText:
          action = ":";  // nothing to offer, but no options either
          break;
        case ValueKind::kNames:
          action = offer(Joined(option.values));
          break;
        case ValueKind::kSystem:
          action = offer("$(infercast completion --list systems 2>/dev/null)");
          break;
        case ValueKind::kModel:
          action = offer("$(infercast completion --list models 2>/dev/null)");
          break;
        case ValueKind::kFile:
          action = file_action;
          break;
      }
      for (const std::string& name : option.names) {
        if (!seen.emplace(name, true).second) continue;
        by_action[action].push_back(name);
      }
    }
  }
  std::string text;
  for (const auto& [action, names] : by_action) {
    text += fmt::format("    {}) {}; return ;;\n", Joined(names, "|"), action);
  }
  return text;
}

std::string PathCases(std::span<const CommandOutline> commands) {
  std::vector<std::string> paths;
  for (const CommandOutline& command : commands) {
    if (!command.path.empty()) paths.push_back("'" + command.path + "'");
  }
  return Joined(paths, "|");
}

// Text for roff: no line may begin with a control character, hyphens are hyphens of programs.
std::string Roff(std::string_view text) {
  std::string escaped;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) escaped += "\\&";
    line_start = c == '\n';
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string RoffOptions(std::span<const OptionOutline> options) {
  std::string text;
  for (const OptionOutline& option : options) {
    std::vector<std::string> names;
    for (const std::string& name : option.names) names.push_back("\\fB" + Roff(name) + "\\fR");
    text += ".TP\n" + Joined(names, ", ");
    if (!option.placeholder.empty() && option.names.front().starts_with('-')) {
      text += " \\fI" + Roff(option.placeholder) + "\\fR";
    }
    text += "\n" + Roff(option.description);
    if (option.required) text += " Required.";
    text += "\n";
  }
  return text;
}

}  // namespace

std::string BashCompletion(std::span<const CommandOutline> commands) {
  std::string text =
      "# Completion of infercast for bash: source it, or put it into\n"
      "# ~/.local/share/bash-completion/completions/infercast.\n"
      "_infercast() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path='' next i "
      "words\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    next=${path:+$path }${COMP_WORDS[i]}\n"
      "    case $next in\n";
  text += fmt::format("    {}) path=$next ;;\n    esac\n  done\n  case $prev in\n",
                      PathCases(commands));
  text += ValueCases(commands, "compopt -o default", [](const std::string& words) {
    return fmt::format("mapfile -t COMPREPLY < <(compgen -W \"{}\" -- \"$cur\")", words);
  });
  text += "  esac\n  case $path in\n";
  for (const CommandOutline& command : commands) {
    text += fmt::format("    '{}') words='{}' ;;\n", command.path, WordsAt(command, commands));
  }
  text +=
      "  esac\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
      "}\n"
      "complete -F _infercast infercast\n";
  return text;
}

std::string ZshCompletion(std::span<const CommandOutline> commands) {
  std::string text =
      "#compdef infercast\n"
      "# Completion of infercast for zsh: put it as _infercast into a folder of $fpath.\n"
      "_infercast() {\n"
      "  local prev=${words[CURRENT-1]} path_='' next i\n"
      "  local -a offers\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    next=\"${path_:+$path_ }${words[i]}\"\n"
      "    case $next in\n";
  text += fmt::format("    {}) path_=$next ;;\n    esac\n  done\n  case $prev in\n",
                      PathCases(commands));
  text += ValueCases(commands, "_files",
                     [](const std::string& words) { return fmt::format("compadd -- {}", words); });
  text += "  esac\n  case $path_ in\n";
  for (const CommandOutline& command : commands) {
    text += fmt::format("    '{}') offers=(\n", command.path);
    // _describe takes "word:description"; colons of a word are escaped.
    for (const std::string& name : command.subcommands) {
      const std::string path = command.path.empty() ? name : command.path + " " + name;
      const auto child = std::ranges::find(commands, path, &CommandOutline::path);
      text += fmt::format("      {}\n", Quoted(name + ":" + child->description));
    }
    for (const OptionOutline* option : OptionsAt(command, commands)) {
      for (const std::string& name : option->names) {
        text += fmt::format("      {}\n", Quoted(name + ":" + option->description));
      }
    }
    text += "    ) ;;\n";
  }
  text +=
      "  esac\n"
      "  _describe 'infercast' offers\n"
      "}\n"
      "if [ \"$funcstack[1]\" = _infercast ]; then\n"
      "  _infercast \"$@\"\n"
      "else\n"
      "  compdef _infercast infercast\n"
      "fi\n";
  return text;
}

std::string FishCompletion(std::span<const CommandOutline> commands) {
  std::string text =
      "# Completion of infercast for fish: put it into ~/.config/fish/completions/infercast.fish.\n"
      "function __infercast_at\n"
      "    set -l path ''\n"
      "    for word in (commandline -opc)[2..-1]\n"
      "        set -l next (string trim -- \"$path $word\")\n"
      "        if contains -- $next $__infercast_paths\n"
      "            set path $next\n"
      "        end\n"
      "    end\n"
      "    test \"$path\" = \"$argv[1]\"\n"
      "end\n"
      "set -g __infercast_paths";
  for (const CommandOutline& command : commands) {
    if (!command.path.empty()) text += " '" + command.path + "'";
  }
  text += "\ncomplete -c infercast -f\n";
  for (const CommandOutline& command : commands) {
    const std::string where =
        fmt::format("complete -c infercast -n \"__infercast_at '{}'\"", command.path);
    for (const std::string& name : command.subcommands) {
      const std::string path = command.path.empty() ? name : command.path + " " + name;
      const auto child = std::ranges::find(commands, path, &CommandOutline::path);
      text += fmt::format("{} -a {} -d {}\n", where, name, Quoted(child->description, true));
    }
    for (const OptionOutline* option : OptionsAt(command, commands)) {
      std::string line = where;
      for (const std::string& name : option->names) {
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      switch (option->kind) {
        case ValueKind::kFlag:
          break;
        case ValueKind::kText:
          line += " -x";
          break;
        case ValueKind::kNames:
          line += " -x -a " + Quoted(Joined(option->values), true);
          break;
        case ValueKind::kSystem:
          line += " -x -a '(infercast completion --list systems 2>/dev/null)'";
          break;
        case ValueKind::kModel:
          line += " -r -a '(infercast completion --list models 2>/dev/null)'";
          break;
        case ValueKind::kFile:
          line += " -r -F";
          break;
      }
      text += line + " -d " + Quoted(option->description, true) + "\n";
    }
  }
  return text;
}

std::string ManualPage(std::span<const CommandOutline> commands, const std::string& version) {
  const CommandOutline& program = commands.front();
  std::string text = fmt::format(
      ".TH INFERCAST 1 \"\" \"infercast {}\" \"User Commands\"\n"
      ".SH NAME\ninfercast \\- {}\n"
      ".SH SYNOPSIS\n.B infercast\n.I command\n.RI [ options ]\n"
      ".SH DESCRIPTION\n"
      "Forecasts latency, throughput, memory and cost of serving a large language model, without a "
      "GPU, from measured times of single operators. The first use of a forecast needs the "
      "measured "
      "data:\n.PP\n.nf\n.RS\ninfercast data fetch\n.RE\n.fi\n",
      Roff(version), "forecasts how fast a large language model will be served");
  text += ".SH COMMANDS\n";
  for (const CommandOutline& command : commands) {
    if (command.path.empty()) continue;
    text += fmt::format(".SS infercast {}\n{}\n", Roff(command.path), Roff(command.description));
    text += RoffOptions(command.positionals);
    std::vector<OptionOutline> own;
    for (const OptionOutline& option : command.options) {
      if (std::ranges::find(option.names, "--help") == option.names.end()) own.push_back(option);
    }
    text += RoffOptions(own);
  }
  text += ".SH OPTIONS OF ALL COMMANDS\n" + RoffOptions(program.options);
  text +=
      ".SH EXIT STATUS\n"
      ".TP\n0\nThere is an answer.\n.TP\n1\nNo configuration meets the target.\n"
      ".TP\n2\nThe command line is wrong.\n.TP\n3\nNot measured, and estimates were not allowed.\n"
      ".TP\n4\nAn invalid configuration or an unknown name.\n.TP\n5\nIt does not fit in memory.\n"
      ".TP\n6\nA data file is damaged.\n.TP\n7\nReading, writing or the network failed.\n"
      ".TP\n70\nA mistake of the program.\n"
      ".TP\n130\nInterrupted; what was found until then has been shown.\n"
      ".SH ENVIRONMENT\n"
      ".TP\nINFERCAST_SYSTEMS_PATH\nTrees of systems and measurements in place of the fetched "
      "data, "
      "as with \\-\\-systems\\-paths.\n"
      ".TP\nXDG_CACHE_HOME\nFetched data and parsed tables are kept in its folder infercast "
      "(else ~/.cache/infercast).\n"
      ".TP\nNO_COLOR\nNo colours, if set to anything.\n";
  return text;
}

}  // namespace infercast
