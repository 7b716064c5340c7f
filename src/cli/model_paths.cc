#include "cli/model_paths.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/file_bytes.h"
#include "base/format.h"
#include "base/knobs.h"

namespace haast::cli {
namespace {

namespace fs = std::filesystem;

// The file that is there, or would be made, in the end: through links too, also those whose end is not there.
fs::path EndOf(const std::string& path) {
  std::error_code error;
  fs::path at = fs::absolute(path, error);
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(at, error)); ++links) {
    const fs::path target = fs::read_symlink(at, error);
    if (error) break;
    at = target.is_absolute() ? target : at.parent_path() / target;
  }
  return fs::weakly_canonical(at, error);
}

// False for empty paths. Neither has to exist.
bool AreOneFile(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  return a == b || fs::equivalent(a, b, error) || EndOf(a) == EndOf(b);
}

// A file that is there already, directly in the folder `folder`, of a model or a head.
bool IsFileOf(const std::string& folder, const std::string& path) {
  std::error_code error;
  return fs::is_directory(folder, error) && fs::is_regular_file(path, error) && EndOf(path).parent_path() == EndOf(folder);
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// `models` in `folder` and in everything above it.
void AppendUpwards(const std::string& folder, std::vector<std::string>* found) {
  if (folder.empty()) return;
  for (fs::path at = folder;; at = at.parent_path()) {
    const std::string models = (at / "models").string();
    if (std::find(found->begin(), found->end(), models) == found->end()) found->push_back(models);
    if (at == at.parent_path()) return;
  }
}

Result<std::string> FindDefaultHead(const Places& places) {
  const std::vector<std::string> folders = HeadSearchPath(places);
  for (const std::string& folder : folders) {
    std::string head = folder + "/" + kDefaultHeadFolder;
    if (Exists(head)) return head;
  }
  return Err(ErrorCode::kNotFound,
             "the draft head {} is in none of {}: run from the repository, give --draft HEAD, or decode plainly with --no-speculation",
             kDefaultHeadFolder, fmt::join(folders, ", "));
}

}  // namespace

Places SystemPlaces() {
  std::error_code error;
  Places places;
  places.cache_folder = base::KnobCacheHome() + "/haast";
  places.working_folder = fs::current_path(error).string();
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) places.executable_folder = executable.parent_path().string();
  return places;
}

std::vector<std::string> HeadSearchPath(const Places& places) {
  std::vector<std::string> found;
  if (!places.executable_folder.empty()) {
    found.push_back((fs::path(places.executable_folder).parent_path() / "share/haast/models").string());
  }
  AppendUpwards(places.working_folder, &found);
  AppendUpwards(places.executable_folder, &found);
  return found;
}

Result<ModelPaths> ResolveModel(const ModelFlags& flags, const Places& places, bool want_head) {
  ModelPaths paths{.model = flags.model, .draft = flags.draft};
  if (flags.model.empty()) {
    paths.model = places.cache_folder + "/" + kDefaultModelFile;
    if (!Exists(paths.model)) {
      return Err(
          ErrorCode::kNotFound,
          "{}: the default model is not there: `make model` in the repository fetches it (`make run` does so too), or give --model PATH",
          paths.model);
    }
  }
  const std::optional<DraftSource> source = AskedSource(flags);
  if (!want_head || SpeculationOff(flags)) {
    paths.draft.clear();
  } else if (source && !IsHead(*source)) {
    // only what was asked for
  } else if (flags.draft.empty() && flags.model.empty()) {
    HAAST_ASSIGN_OR_RETURN(paths.draft, FindDefaultHead(places));
  } else if (flags.draft.empty() && fs::path(flags.model).filename() == kDefaultModelFile) {
    paths.draft = FindDefaultHead(places).value_or("");  // a copy of the default model elsewhere
  }
  if (want_head && source && IsHead(*source) && paths.draft.empty()) {
    return Err(ErrorCode::kInvalidArgument, "--speculative-algorithm {} needs a head for {}: give --draft HEAD", flags.algorithm,
               paths.model);
  }
  HAAST_RETURN_IF_ERROR(RefuseOverwriting("--trace-metadata", flags.trace_metadata, {paths.model, paths.draft, flags.draft_model}));
  return paths;
}

Status RefuseOverwriting(const char* flag, const std::string& output, std::initializer_list<std::string> inputs) {
  for (const std::string& input : inputs) {
    const bool part = !output.empty() && AreOneFile(output + base::kPartSuffix, input);
    const bool of_folder = IsFileOf(input, output);
    if (!AreOneFile(output, input) && !part && !of_folder) continue;
    return Err(ErrorCode::kInvalidArgument, "{} {}{} would overwrite {}, which is read: give another path", flag, output,
               part ? base::kPartSuffix : "", of_folder ? "a file of " + input : input);
  }
  return {};
}

Status RefuseOneFileForTwo(const char* flag, const std::string& output, const char* other_flag, const std::string& other_output) {
  const auto part_is = [](const std::string& a, const std::string& b) { return !a.empty() && AreOneFile(a + base::kPartSuffix, b); };
  if (!AreOneFile(output, other_output) && !part_is(output, other_output) && !part_is(other_output, output)) return {};
  return Err(ErrorCode::kInvalidArgument, "{} and {} would both write {}: give each a path of its own", flag, other_flag, output);
}

}  // namespace haast::cli
