// Whether a drafter is of any use, by the rounds of all requests together.
#pragma once

#include <optional>
#include <string>

namespace haast::engine {

class DraftHealth {
 public:
  // A round with drafts was judged. Gives the reason, once, where the window that it ends fell below `floor`.
  std::optional<std::string> Count(bool first_accepted, double floor);

 private:
  static constexpr int kWindow = 256;  // rounds: at a true rate of 10 %, fewer than 2 % is less likely than one in a million
  int rounds_ = 0;
  int accepted_ = 0;
};

}  // namespace haast::engine
