// What ovapi.go calls. A function that can fail returns NULL, or a message that the caller frees.
#ifndef NEREID_OVAPI_H
#define NEREID_OVAPI_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { NRD_OV_MAX_RANK = 64, NRD_OV_MAX_PROPERTIES = 12, NRD_OV_TYPES = 48, NRD_OV_STRING_SIZE = 32 };

// What an input or output of a model is.
typedef struct {
  char *name; // the caller's to free; NULL: it has none
  uint32_t type;
  int32_t rank; // -1: any
  int64_t dims[NRD_OV_MAX_RANK]; // -1: any
} nrd_ov_io;

// One output of a run. The tensor is the caller's to free; data is overwritten by the next run of the request.
typedef struct {
  void *tensor;
  void *data;
  uint64_t size;  // bytes; for strings in Triton's form
  uint64_t count; // elements
  uint32_t type;
  int32_t rank;
  int64_t shape[NRD_OV_MAX_RANK];
} nrd_ov_output;

char *nrd_ov_open(const char *path);
char *nrd_ov_version(char **version);
// nrd_ov_sizes fills in how many bytes eight elements of each type take, 0 where there is no such type.
void nrd_ov_sizes(uint64_t sizes[NRD_OV_TYPES]);

char *nrd_ov_core(void **core);
char *nrd_ov_extension(void *core, const char *path);
char *nrd_ov_read(void *core, const char *path, void **model);
void nrd_ov_free_model(void *model);
char *nrd_ov_count(void *model, int output, size_t *n);
char *nrd_ov_describe(void *model, int output, size_t i, nrd_ov_io *io);
// nrd_ov_reshape sets the shapes of n inputs; dims has all of them one after the other.
char *nrd_ov_reshape(void *model, const char **names, const int64_t *dims, const int32_t *ranks, size_t n);
char *nrd_ov_compile(void *core, void *model, const char *device, const char **keys, const char **values, size_t n,
    void **compiled);
void nrd_ov_free_compiled(void *compiled);
char *nrd_ov_port(void *compiled, int output, const char *name, void **port, uint32_t *type);
void nrd_ov_free_port(void *port);
char *nrd_ov_request(void *compiled, void **request);
void nrd_ov_free_request(void *request);

// nrd_ov_put gives a request an input whose memory is the caller's, for as long as the request may run.
char *nrd_ov_put(void *request, void *port, uint32_t type, const int64_t *shape, int rank, void *data);
// nrd_ov_create makes an input with memory of its own, which is to be filled before nrd_ov_put_created takes it.
char *nrd_ov_create(uint32_t type, const int64_t *shape, int rank, void **tensor, void **data);
char *nrd_ov_put_created(void *request, void *port, void *tensor);
char *nrd_ov_put_strings(void *request, void *port, const int64_t *shape, int rank, const char **texts, size_t n);
char *nrd_ov_infer(void *request);
char *nrd_ov_output_of(void *request, void *port, uint32_t string_type, nrd_ov_output *o);
void nrd_ov_get_strings(const nrd_ov_output *o, void *buf);
void nrd_ov_free_tensor(void *tensor);

#endif
