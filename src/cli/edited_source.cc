#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <system_error>

#include "base/format.h"
#include "cli/interrupt.h"
#include "cli/line_source.h"

namespace haast::cli {
namespace {

constexpr int kHistoryLines = 1000;

class EditedSource final : public LineSource {
 public:
  EditedSource(std::string prompt, std::string history_file, Output& err)
      : prompt_(std::move(prompt)), history_file_(std::move(history_file)), err_(err) {
    // Whole characters are edited, whatever the environment says about languages.
    if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    edit_ = el_init("haast", stdin, stdout, stderr);
    history_ = history_init();
    if (edit_ == nullptr || history_ == nullptr) return;
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, &Prompt);
    el_set(edit_, EL_GETCFN, &ReadCharacter);
    el_set(edit_, EL_EDITOR, "emacs");
    // Ctrl-D typed while an answer is written arrives as a zero byte once the terminal no longer reads by lines.
    el_set(edit_, EL_BIND, "^@", "em-delete-or-list", nullptr);
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(edit_, EL_HIST, history, history_);
    history(history_, &event, H_LOAD, history_file_.c_str());  // there is none in the first run
  }

  ~EditedSource() override {
    if (history_ != nullptr) history_end(history_);
    if (edit_ != nullptr) el_end(edit_);
  }

  Result<Line> Next() override {
    if (edit_ == nullptr || history_ == nullptr)
      return MakeError(ErrorCode::kIo, "line editing: the terminal cannot be used: pipe the input");
    el_set(edit_, EL_PREP_TERM, 1);  // before the prompt asks for keys, which the terminal would otherwise echo and act on itself
    int length = 0;
    const char* typed = el_gets(edit_, &length);
    if (InterruptScope::Interrupted()) {
      el_reset(edit_);
      return Line{LineKind::kInterrupted, ""};
    }
    if (typed == nullptr || length <= 0) return Line{LineKind::kEnd, ""};
    std::string text(typed, static_cast<size_t>(length));
    if (text.ends_with('\n')) text.pop_back();
    if (text.find_first_not_of(" \t") != std::string::npos) Remember(text);
    return Line{LineKind::kLine, std::move(text)};
  }

 private:
  static char* Prompt(EditLine* edit) {
    EditedSource* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return self->prompt_.data();
  }

  // libedit's own reader would sleep through a signal that comes between the prompt and its read.
  static int ReadCharacter(EditLine*, wchar_t* character) {
    std::mbstate_t state{};
    for (;;) {
      if (!InterruptScope::WaitReadable(STDIN_FILENO)) return -1;
      char byte;
      const ssize_t got = read(STDIN_FILENO, &byte, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return static_cast<int>(got);
      const size_t length = std::mbrtowc(character, &byte, 1, &state);
      if (length == static_cast<size_t>(-2)) continue;                // the character has more bytes
      if (length == static_cast<size_t>(-1)) *character = L'\ufffd';  // no character at all
      return 1;
    }
  }

  // Written after every line, so that a killed program loses none; by rename, so that a full disk does not empty the file.
  void Remember(const std::string& text) {
    HistEvent event;
    history(history_, &event, H_ENTER, text.c_str());
    if (history_lost_) return;
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(history_file_).parent_path(), error);
    const std::string fresh = history_file_ + ".new";
    errno = 0;
    const bool saved = history(history_, &event, H_SAVE, fresh.c_str()) >= 0 && std::rename(fresh.c_str(), history_file_.c_str()) == 0;
    if (saved) return;
    history_lost_ = true;
    err_.Write(fmt::format("{}: the history cannot be kept: {}\n", history_file_, errno != 0 ? std::strerror(errno) : "writing failed"));
    std::filesystem::remove(fresh, error);
  }

  std::string prompt_;
  const std::string history_file_;
  Output& err_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  bool history_lost_ = false;
};

}  // namespace

std::unique_ptr<LineSource> MakeEditedSource(std::string prompt, std::string history_file, Output& err) {
  return std::make_unique<EditedSource>(std::move(prompt), std::move(history_file), err);
}

}  // namespace haast::cli
