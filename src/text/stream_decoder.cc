#include "text/stream_decoder.h"

namespace haast::text {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special) : tokenizer_(&tokenizer), skip_special_(skip_special) {}

std::string StreamDecoder::Push(int32_t id) {
  std::string bytes;
  tokenizer_->AppendBytes(id, skip_special_, &at_start_, &bytes);
  std::string text;
  utf8_.Push(bytes, &text);
  return text;
}

std::string StreamDecoder::Finish() {
  std::string text;
  utf8_.Finish(&text);
  at_start_ = true;
  return text;
}

}  // namespace haast::text
