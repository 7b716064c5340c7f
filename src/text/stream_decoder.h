// Token ids to text as they arrive, whole characters only.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace haast::text {

// The concatenation of all Push results and Finish equals Tokenizer::Decode of all ids, and every piece is valid UTF-8.
// The state is a few bytes, whatever was pushed; a copy is an independent stream (a snapshot to go back to).
class StreamDecoder {
 public:
  // `tokenizer` outlives this object.
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special);

  // The text that has become certain with this token; often empty in the middle of a character.
  std::string Push(int32_t id);
  // Ends the text: an unfinished character becomes U+FFFD. The decoder is ready for a new text afterwards.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  Utf8Stream utf8_;
  bool skip_special_;
  bool at_start_ = true;  // no token has been decoded yet: the leading space rule still applies
};

}  // namespace haast::text
