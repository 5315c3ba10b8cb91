// What tfapi.go calls. A function that can fail returns NULL, or a message that the caller frees; *code is then
// TensorFlow's (TF_Code).
#ifndef NEREID_TFAPI_H
#define NEREID_TFAPI_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// A TF_TString is of NRD_TF_STRING_SIZE bytes, whatever it holds.
enum { NRD_TF_MAX_RANK = 64, NRD_TF_STRING = 7, NRD_TF_STRING_SIZE = 24 };

// TF_Output: an output of an operation of the graph.
typedef struct {
  void *oper;
  int index;
} nrd_tf_port;

// One output of a run; the tensor is the caller's to release.
typedef struct {
  void *tensor;
  void *data;     // NULL for strings
  uint64_t size;  // bytes; for strings in Triton's form
  uint64_t count; // elements
  int32_t type;   // TF_DataType
  int32_t rank;
  int64_t shape[NRD_TF_MAX_RANK];
} nrd_tf_output;

char *nrd_tf_open(const char *path);
const char *nrd_tf_version(void);
char *nrd_tf_load_library(const char *path, int *code);
// config is a ConfigProto; n may be 0.
char *nrd_tf_saved_model(const char *folder, const char *const *tags, int n_tags, const void *config, size_t n,
    void **graph, void **session, int *code);
char *nrd_tf_graph(const void *def, size_t size, const void *config, size_t n, void **graph, void **session, int *code);
void nrd_tf_close(void *graph, void *session);
// nrd_tf_find looks an output of an operation up: 0 if there is no such operation, -1 if it has fewer outputs; else 1.
int nrd_tf_find(void *graph, const char *name, int index, nrd_tf_port *port, int *type);
char *nrd_tf_target(void *graph, void *session, const char *name, int *code);
// nrd_tf_has_gpu reports whether the session sees a GPU.
int nrd_tf_has_gpu(void *session);

// nrd_tf_tensor makes a tensor whose memory is to be filled at *data. NULL: out of memory.
void *nrd_tf_tensor(int type, const int64_t *shape, int rank, size_t size, void **data);
// nrd_tf_strings makes a tensor of count empty strings, whose first is at *data; nrd_tf_put_strings sets n of them
// from *data on from their form in requests: 0 if that is damaged. TensorFlow frees the strings with the tensor.
void *nrd_tf_strings(const int64_t *shape, int rank, uint64_t count, void **data);
int nrd_tf_put_strings(void *data, const void *from, size_t size, uint64_t n);
void nrd_tf_delete(void *tensor);

char *nrd_tf_run(void *session, const nrd_tf_port *in, void *const *in_tensors, int n_in, const nrd_tf_port *out,
    void **out_tensors, nrd_tf_output *outputs, int n_out, int *code);
// nrd_tf_get_strings writes a string tensor in Triton's form into buf, which has o->size bytes.
void nrd_tf_get_strings(const nrd_tf_output *o, void *buf);

#endif
