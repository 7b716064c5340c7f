// Standard output and error as a command sees them: unbuffered, with failures remembered instead of signals.
#pragma once

#include <string>
#include <string_view>

#include "haast/result.h"

namespace haast::cli {

class Output {
 public:
  // `fd` stays open and is not owned.
  explicit Output(int fd);

  // Writes all bytes. After the first failure nothing is written any more and false is returned; status() says why.
  bool Write(std::string_view bytes);
  // Text for people: errors, reports and whatever else may quote a file. Control characters other than newline and tab become
  // U+FFFD, so that no file can move the cursor, change the title or type into the terminal that shows it now or later.
  bool WriteText(std::string_view text);

  bool is_terminal() const { return is_terminal_; }
  // Colours are wanted: a terminal, and NO_COLOR is not set.
  bool colour() const { return colour_; }
  // The reader has gone (EPIPE): not worth a message.
  bool reader_gone() const;
  bool ok() const { return errno_ == 0; }
  Status status() const;

 private:
  int fd_;
  int errno_ = 0;
  bool is_terminal_;
  bool colour_;
};

// The streams of one command.
struct Streams {
  Output out;
  Output err;
  int in_fd;
  bool in_is_terminal;
};

}  // namespace haast::cli
