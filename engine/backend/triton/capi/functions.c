// The table of all names of the API. functions.h has each once: BUILT ones are in the other files, and MISSING ones are
// here and answer that they are not supported.

#include "shim.h"

#define BUILT(name) extern void name(void);
#define MISSING(name) \
  static error missing_##name(void) { return new_error(CODE_UNSUPPORTED, "%s is not supported by this server", #name); }
#include "functions.h"
#undef BUILT
#undef MISSING

// The functions have many types: only their addresses are used here.
#define BUILT(name) {#name, (void *)name, true},
#define MISSING(name) {#name, (void *)missing_##name, false},
static const nt_function functions[] = {
#include "functions.h"
};

const nt_function *nt_functions(size_t *count) {
  *count = sizeof functions / sizeof *functions;
  return functions;
}
