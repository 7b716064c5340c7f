// Which build of this program runs.
#pragma once

#include <string>

namespace haast::base {

// The linker's build id of the running program in hexadecimal; without one, compiler and version of this file's build.
const std::string& BuildId();

}  // namespace haast::base
