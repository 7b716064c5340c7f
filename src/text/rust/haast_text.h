/* C ABI of the Rust text library (tokenizers, minijinja).
 *
 * Strings are (pointer, length), UTF-8 unless said otherwise, never null-terminated; an empty one may have a null pointer.
 * Every fallible function returns a haast_text_status; on any status but HAAST_TEXT_OK it leaves its outputs untouched
 * except `error`, which then holds one sentence. Inputs are borrowed for the call. What comes back in a haast_bytes,
 * haast_ids or haast_table is owned by the caller until given to its free function, once. A handle may be used by several
 * threads at once; freeing it ends that. No call unwinds into the caller: a panic inside is HAAST_TEXT_INTERNAL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum haast_text_status {
  HAAST_TEXT_OK = 0,
  HAAST_TEXT_INVALID_ARGUMENT = 1, /* the text, messages or ids of this call */
  HAAST_TEXT_INVALID_FILE = 2,     /* the vocabulary or template does not follow its format */
  HAAST_TEXT_UNSUPPORTED = 3,      /* well-formed, but not something this library can serve */
  HAAST_TEXT_LIMIT = 4,            /* the step, size or memory limit was reached */
  HAAST_TEXT_INTERNAL = 5,         /* a library below panicked; the handle stays usable */
  HAAST_TEXT_RESOURCE = 6          /* the system refused a thread: nothing is wrong with the input */
} haast_text_status;

typedef struct haast_slice {
  const uint8_t* data;
  size_t size;
} haast_slice;

typedef struct haast_bytes {
  uint8_t* data;
  size_t size;
} haast_bytes;
void haast_bytes_free(haast_bytes bytes);

typedef struct haast_ids {
  uint32_t* data;
  size_t size;
} haast_ids;
void haast_ids_free(haast_ids ids);

/* ---- tokenizer ---- */

typedef struct haast_tokenizer haast_tokenizer;

/* Vocabulary of GGUF metadata. Strings of a list lie one after the other in `*_text`; `*_ends[i]` is where string i ends. */
typedef struct haast_gguf_vocab {
  haast_slice model; /* "gpt2" or "llama" */
  haast_slice pre;
  haast_slice token_text;
  const uint64_t* token_ends; /* [token_count] */
  size_t token_count;
  haast_slice merge_text;
  const uint64_t* merge_ends; /* [merge_count] */
  size_t merge_count;
  const float* scores;  /* [token_count] or null */
  const int32_t* types; /* [token_count] or null */
  int32_t unknown_id;   /* -1: none */
  bool add_space_prefix;
} haast_gguf_vocab;

haast_text_status haast_tokenizer_from_json(haast_slice json, haast_tokenizer** out, haast_bytes* error);
haast_text_status haast_tokenizer_from_gguf(const haast_gguf_vocab* vocab, haast_tokenizer** out, haast_bytes* error);
void haast_tokenizer_free(haast_tokenizer* tokenizer);

haast_text_status haast_tokenizer_encode(const haast_tokenizer* tokenizer, haast_slice text, bool parse_special, haast_ids* out,
                                         haast_bytes* error);
/* The id of a token by its spelling, or -1. */
int64_t haast_tokenizer_token_to_id(const haast_tokenizer* tokenizer, haast_slice token);

/* What each token contributes to a text: enough to decode without this library. */
typedef struct haast_table {
  haast_bytes bytes;      /* all tokens' bytes, one after the other (not UTF-8 token by token) */
  haast_ids byte_ends;    /* [vocab] */
  haast_bytes texts;      /* all tokens' spellings */
  haast_ids text_ends;    /* [vocab] */
  haast_bytes special;    /* [vocab] 1: special */
  haast_ids prefix;       /* ids that the post-processor puts before a prompt */
  haast_ids suffix;       /* and after */
  uint32_t leading_space; /* 0: kept; 1: one space at the start of a text is dropped; 2: all spaces of its first token are */
} haast_table;
haast_text_status haast_tokenizer_table(const haast_tokenizer* tokenizer, haast_table* out, haast_bytes* error);
void haast_table_free(haast_table table);

/* ---- chat template ---- */

typedef struct haast_template haast_template;

/* `specials_json`: object of bos_token, eos_token, ... that every rendering sees. */
haast_text_status haast_template_new(haast_slice source, haast_slice specials_json, haast_template** out, haast_bytes* error);
void haast_template_free(haast_template* handle);

typedef struct haast_render_input {
  haast_slice messages_json;  /* array */
  haast_slice tools_json;     /* array; empty: none */
  haast_slice variables_json; /* object; empty: none */
  bool add_generation_prompt;
  int64_t local_seconds; /* since 1970, in local time */
} haast_render_input;
haast_text_status haast_template_render(const haast_template* handle, const haast_render_input* input, haast_bytes* out,
                                        haast_bytes* error);

#ifdef __cplusplus
}
#endif
