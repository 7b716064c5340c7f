// Where the model and the head are when the flags do not say.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "cli/options.h"
#include "haast/result.h"

namespace haast::cli {

inline constexpr const char* kDefaultModelFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kDefaultHeadFolder = "smollm2-135m-eagle3.1";

struct Places {
  std::string cache_folder;       // ".../haast"
  std::string working_folder;     // absolute
  std::string executable_folder;  // absolute; empty where unknown
};

Places SystemPlaces();

// Folders that may hold the shipped heads, nearest first: share/haast/models beside the executable's folder, then `models`
// in the working folder, the executable's folder and everything above them.
std::vector<std::string> HeadSearchPath(const Places& places);

struct ModelPaths {
  std::string model;
  std::string draft;  // empty: no head
};

// `want_head`: the command uses a head (the flags alone may still say no). Errors are kNotFound with all places looked at
// and what to do.
Result<ModelPaths> ResolveModel(const ModelFlags& flags, const Places& places, bool want_head);

// kInvalidArgument where `output`, given with `flag`, is one of `inputs`: what is written would destroy it. Empty paths are none.
Status RefuseOverwriting(const char* flag, const std::string& output, std::initializer_list<std::string> inputs);

// kInvalidArgument where both outputs are one file. Empty paths are none.
Status RefuseOneFileForTwo(const char* flag, const std::string& output, const char* other_flag, const std::string& other_output);

}  // namespace haast::cli
