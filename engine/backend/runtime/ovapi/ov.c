#include "ov.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// The C API's own structures (ov_shape.h, ov_partial_shape.h, ov_core.h).
typedef struct {
  int64_t rank;
  int64_t *dims;
} shape_t;
typedef struct {
  int64_t min, max;
} dimension_t;
typedef struct {
  dimension_t rank;
  dimension_t *dims;
} partial_t;
typedef struct {
  const char *build, *description;
} version_t;

// The functions of the library. Set once, before any other use, by nrd_ov_open. Opaque types are void.
static struct {
  int (*get_openvino_version)(version_t *);
  void (*version_free)(version_t *);
  const char *(*get_error_info)(int);
  const char *(*get_last_err_msg)(void);
  void (*free)(const char *);
  int (*core_create)(void **);
  int (*core_add_extension)(void *, const char *);
  int (*core_read_model)(void *, const char *path, const char *weights, void **);
  int (*core_compile_model)(void *, void *model, const char *device, size_t n, void **, ...);
  void (*model_free)(void *);
  int (*model_inputs_size)(void *, size_t *);
  int (*model_outputs_size)(void *, size_t *);
  int (*model_const_input_by_index)(void *, size_t, void **);
  int (*model_const_output_by_index)(void *, size_t, void **);
  int (*model_reshape)(void *, const char **, const partial_t *, size_t);
  int (*port_get_any_name)(void *, char **);
  int (*port_get_element_type)(void *, uint32_t *);
  int (*port_get_partial_shape)(void *, partial_t *);
  void (*partial_shape_free)(partial_t *);
  void (*output_const_port_free)(void *);
  void (*compiled_model_free)(void *);
  int (*compiled_model_input_by_name)(void *, const char *, void **);
  int (*compiled_model_output_by_name)(void *, const char *, void **);
  int (*compiled_model_create_infer_request)(void *, void **);
  void (*infer_request_free)(void *);
  int (*infer_request_set_tensor_by_const_port)(void *, void *port, void *tensor);
  int (*infer_request_get_tensor_by_const_port)(void *, void *port, void **);
  int (*infer_request_infer)(void *);
  int (*tensor_create)(uint32_t, shape_t, void **);
  int (*tensor_create_from_host_ptr)(uint32_t, shape_t, void *, void **);
  int (*tensor_create_from_string_array)(const char **, size_t, shape_t, void **);
  int (*tensor_get_shape)(void *, shape_t *);
  int (*shape_free)(shape_t *);
  int (*tensor_get_element_type)(void *, uint32_t *);
  int (*tensor_get_byte_size)(void *, size_t *);
  int (*tensor_data)(void *, void **);
  void (*tensor_free)(void *);
} ov;

static const struct {
  const char *name;
  void **to;
} functions[] = {
#define F(name) {"ov_" #name, (void **)&ov.name}
  F(get_openvino_version), F(version_free), F(get_error_info), F(get_last_err_msg), F(free), F(core_create),
  F(core_add_extension), F(core_read_model), F(core_compile_model), F(model_free), F(model_inputs_size),
  F(model_outputs_size), F(model_const_input_by_index), F(model_const_output_by_index), F(model_reshape),
  F(port_get_any_name), F(port_get_element_type), F(port_get_partial_shape), F(partial_shape_free),
  F(output_const_port_free), F(compiled_model_free), F(compiled_model_input_by_name),
  F(compiled_model_output_by_name), F(compiled_model_create_infer_request), F(infer_request_free),
  F(infer_request_set_tensor_by_const_port), F(infer_request_get_tensor_by_const_port), F(infer_request_infer),
  F(tensor_create), F(tensor_create_from_host_ptr), F(tensor_create_from_string_array), F(tensor_get_shape),
  F(shape_free), F(tensor_get_element_type), F(tensor_get_byte_size), F(tensor_data), F(tensor_free),
#undef F
};

char *nrd_ov_open(const char *path) {
  void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!handle) return strdup(dlerror());
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    *functions[i].to = dlsym(handle, functions[i].name);
    if (!*functions[i].to) {
      char text[128];
      snprintf(text, sizeof text, "it has no function %s: it is older than OpenVINO 2024.0, or not OpenVINO",
          functions[i].name);
      return strdup(text);
    }
  }
  return NULL;
}

// failed returns the message of a status, NULL if that is none of an error.
static char *failed(int status) {
  if (!status) return NULL;
  // INVALID_C_PARAM sets no message: there may be an older one.
  const char *last = status == -14 ? NULL : ov.get_last_err_msg();
  char *text = strdup(last && *last ? last : ov.get_error_info(status));
  if (last) ov.free(last);
  return text;
}

char *nrd_ov_version(char **version) {
  version_t v = {0};
  char *error = failed(ov.get_openvino_version(&v));
  if (error) return error;
  *version = strdup(v.build);
  ov.version_free(&v);
  return NULL;
}

void nrd_ov_sizes(uint64_t sizes[NRD_OV_TYPES]) {
  int64_t eight = 8;
  shape_t shape = {1, &eight};
  for (uint32_t type = 0; type < NRD_OV_TYPES; type++) {
    void *t = NULL;
    size_t n = 0;
    sizes[type] = 0;
    if (ov.tensor_create(type, shape, &t) || !t) continue;
    if (!ov.tensor_get_byte_size(t, &n)) sizes[type] = n;
    ov.tensor_free(t);
  }
}

char *nrd_ov_core(void **core) { return failed(ov.core_create(core)); }
char *nrd_ov_extension(void *core, const char *path) { return failed(ov.core_add_extension(core, path)); }
char *nrd_ov_read(void *core, const char *path, void **model) {
  return failed(ov.core_read_model(core, path, NULL, model));
}
void nrd_ov_free_model(void *model) { ov.model_free(model); }

char *nrd_ov_count(void *model, int output, size_t *n) {
  return failed(output ? ov.model_outputs_size(model, n) : ov.model_inputs_size(model, n));
}

char *nrd_ov_describe(void *model, int output, size_t i, nrd_ov_io *io) {
  void *port = NULL;
  partial_t shape = {{0}};
  char *name = NULL;
  memset(io, 0, sizeof *io);
  char *error = failed(output ? ov.model_const_output_by_index(model, i, &port)
      : ov.model_const_input_by_index(model, i, &port));
  if (error) return error;
  if (!ov.port_get_any_name(port, &name) && name) {
    io->name = strdup(name);
    ov.free(name);
  }
  error = failed(ov.port_get_element_type(port, &io->type));
  if (!error) error = failed(ov.port_get_partial_shape(port, &shape));
  if (!error) {
    io->rank = shape.rank.min == shape.rank.max && shape.rank.max <= NRD_OV_MAX_RANK ? (int32_t)shape.rank.max : -1;
    for (int32_t k = 0; k < io->rank; k++) {
      io->dims[k] = shape.dims[k].min == shape.dims[k].max ? shape.dims[k].max : -1;
    }
    ov.partial_shape_free(&shape);
  }
  ov.output_const_port_free(port);
  return error;
}

char *nrd_ov_reshape(void *model, const char **names, const int64_t *dims, const int32_t *ranks, size_t n) {
  size_t total = 0;
  for (size_t i = 0; i < n; i++) total += (size_t)ranks[i];
  partial_t *shapes = calloc(n + 1, sizeof *shapes);
  dimension_t *all = calloc(total + 1, sizeof *all), *at = all;
  char *error = NULL;
  if (shapes && all) {
    for (size_t i = 0; i < n; i++) {
      shapes[i].rank.min = shapes[i].rank.max = ranks[i];
      shapes[i].dims = at;
      for (int32_t k = 0; k < ranks[i]; k++, at++, dims++) {
        at->min = *dims < 0 ? 0 : *dims;
        at->max = *dims;
      }
    }
    error = failed(ov.model_reshape(model, names, shapes, n));
  } else {
    error = strdup("out of memory");
  }
  free(shapes);
  free(all);
  return error;
}

char *nrd_ov_compile(void *core, void *model, const char *device, const char **k, const char **v, size_t n,
    void **compiled) {
  // Arguments behind the n-th are not looked at.
  return failed(ov.core_compile_model(core, model, device, 2 * n, compiled, k[0], v[0], k[1], v[1], k[2], v[2], k[3],
      v[3], k[4], v[4],
      k[5], v[5], k[6], v[6], k[7], v[7], k[8], v[8], k[9], v[9], k[10], v[10], k[11], v[11]));
}

void nrd_ov_free_compiled(void *compiled) { ov.compiled_model_free(compiled); }

char *nrd_ov_port(void *compiled, int output, const char *name, void **port, uint32_t *type) {
  char *error = failed(output ? ov.compiled_model_output_by_name(compiled, name, port)
      : ov.compiled_model_input_by_name(compiled, name, port));
  if (error) return error;
  error = failed(ov.port_get_element_type(*port, type));
  if (error) {
    ov.output_const_port_free(*port);
    *port = NULL;
  }
  return error;
}

void nrd_ov_free_port(void *port) { ov.output_const_port_free(port); }
char *nrd_ov_request(void *compiled, void **request) {
  return failed(ov.compiled_model_create_infer_request(compiled, request));
}
void nrd_ov_free_request(void *request) { ov.infer_request_free(request); }

// put gives a tensor to a request, which shares it, and frees this reference.
static char *put(void *request, void *port, void *tensor) {
  char *error = failed(ov.infer_request_set_tensor_by_const_port(request, port, tensor));
  ov.tensor_free(tensor);
  return error;
}

char *nrd_ov_put(void *request, void *port, uint32_t type, const int64_t *shape, int rank, void *data) {
  void *tensor = NULL;
  shape_t s = {rank, (int64_t *)shape};
  char *error = failed(ov.tensor_create_from_host_ptr(type, s, data, &tensor));
  return error ? error : put(request, port, tensor);
}

char *nrd_ov_create(uint32_t type, const int64_t *shape, int rank, void **tensor, void **data) {
  shape_t s = {rank, (int64_t *)shape};
  char *error = failed(ov.tensor_create(type, s, tensor));
  if (error) return error;
  error = failed(ov.tensor_data(*tensor, data));
  if (error) ov.tensor_free(*tensor);
  return error;
}

char *nrd_ov_put_created(void *request, void *port, void *tensor) { return put(request, port, tensor); }

char *nrd_ov_put_strings(void *request, void *port, const int64_t *shape, int rank, const char **texts, size_t n) {
  void *tensor = NULL;
  shape_t s = {rank, (int64_t *)shape};
  char *error = failed(ov.tensor_create_from_string_array(texts, n, s, &tensor));
  return error ? error : put(request, port, tensor);
}

char *nrd_ov_infer(void *request) { return failed(ov.infer_request_infer(request)); }

// A std::string of the C++ library that OpenVINO is built with (libstdc++): nrd_ov_sizes tells that it has this size.
typedef struct {
  const char *data;
  size_t size;
  char rest[NRD_OV_STRING_SIZE - sizeof(char *) - sizeof(size_t)];
} string_t;

char *nrd_ov_output_of(void *request, void *port, uint32_t string_type, nrd_ov_output *o) {
  shape_t shape = {0};
  size_t size = 0;
  o->tensor = NULL;
  char *error = failed(ov.infer_request_get_tensor_by_const_port(request, port, &o->tensor));
  if (error) return error;
  error = failed(ov.tensor_get_element_type(o->tensor, &o->type));
  if (!error) error = failed(ov.tensor_get_shape(o->tensor, &shape));
  if (!error) {
    o->rank = (int32_t)shape.rank;
    o->count = 1;
    if (shape.rank > NRD_OV_MAX_RANK) error = strdup("an output has more dimensions than can be served");
    for (int64_t i = 0; i < shape.rank && !error; i++) {
      o->shape[i] = shape.dims[i];
      o->count *= (uint64_t)shape.dims[i];
    }
    ov.shape_free(&shape);
  }
  if (!error) error = failed(ov.tensor_get_byte_size(o->tensor, &size));
  o->size = size;
  o->data = NULL;
  if (!error && o->count) error = failed(ov.tensor_data(o->tensor, &o->data));
  if (error) {
    ov.tensor_free(o->tensor);
    o->tensor = NULL;
    return error;
  }
  if (o->type == string_type) {
    const string_t *s = o->data;
    o->size = 4 * o->count;
    for (uint64_t i = 0; i < o->count; i++) o->size += s[i].size;
  }
  return NULL;
}

void nrd_ov_get_strings(const nrd_ov_output *o, void *buf) {
  const string_t *s = o->data;
  unsigned char *at = buf;
  for (uint64_t i = 0; i < o->count; i++, s++) {
    size_t n = s->size;
    at[0] = n & 255;
    at[1] = n >> 8 & 255;
    at[2] = n >> 16 & 255;
    at[3] = n >> 24 & 255;
    memcpy(at + 4, s->data, n);
    at += 4 + n;
  }
}

void nrd_ov_free_tensor(void *tensor) { ov.tensor_free(tensor); }
