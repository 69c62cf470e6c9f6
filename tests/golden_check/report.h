// Gathers outcomes and prints them: a table for people, or JSON.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "golden_check/outcome.h"

namespace infercast::golden {

class Report {
 public:
  explicit Report(std::size_t max_failures) : max_failures_(max_failures) {}

  void Add(const std::string& file, const Outcome& outcome);
  void AddUnreadable(const std::string& file, const std::string& why);

  std::size_t cases() const;
  std::size_t failed() const;
  bool any_unreadable() const { return !unreadable_.empty(); }

  std::string Text() const;
  std::string Json() const;

 private:
  struct Failure {
    std::string file;
    Outcome outcome;
  };
  struct Group {
    std::size_t cases = 0;
    std::size_t failed = 0;
    double largest_relative = 0;
    std::vector<Failure> first;
  };

  std::size_t max_failures_;
  std::map<std::pair<std::string, std::string>, Group> groups_;
  std::vector<std::pair<std::string, std::string>> unreadable_;
};

}  // namespace infercast::golden
