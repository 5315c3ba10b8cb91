// The names, numbers and types of Triton's C API that backends, caches and agents use, as its documentation gives
// them: TRITONSERVER 1.34, TRITONBACKEND 1.19. Pointers are opaque to the libraries that get them. A function returns
// NULL, or an error that its caller deletes.
#ifndef NT_TRITON_API_H
#define NT_TRITON_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SERVER_MAJOR = 1, SERVER_MINOR = 34, BACKEND_MAJOR = 1, BACKEND_MINOR = 19 };

enum error_code {
  CODE_UNKNOWN,
  CODE_INTERNAL,
  CODE_NOT_FOUND,
  CODE_INVALID_ARG,
  CODE_UNAVAILABLE,
  CODE_UNSUPPORTED,
  CODE_ALREADY_EXISTS,
  CODE_CANCELLED
};

// Data types have the numbers of model_config.proto.
enum { TYPE_UINT8 = 2, TYPE_BYTES = 13, TYPE_LAST = 14 };

enum memory_type { MEMORY_CPU, MEMORY_CPU_PINNED, MEMORY_GPU };

enum parameter_type { PARAMETER_STRING, PARAMETER_INT, PARAMETER_BOOL, PARAMETER_DOUBLE, PARAMETER_BYTES };

enum instance_kind { KIND_AUTO, KIND_CPU, KIND_GPU, KIND_MODEL };

enum log_level { LOG_INFO, LOG_WARN, LOG_ERROR, LOG_VERBOSE };

enum execution_policy { POLICY_BLOCKING, POLICY_DEVICE_BLOCKING };

enum { RELEASE_ALL = 1, RELEASE_RESCHEDULE = 2 };
enum { RESPONSE_FINAL = 1 };
enum { TRACE_MIN = 1, TRACE_MAX = 2, TRACE_TIMESTAMPS = 4, TRACE_TENSORS = 8 };
enum { ACTIVITY_CUSTOM = 10 };
enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum { MODEL_ONE_TO_ONE = 1, MODEL_DECOUPLED = 2 };

typedef struct TRITONSERVER_Error TRITONSERVER_Error;
typedef struct TRITONSERVER_Message TRITONSERVER_Message;
typedef struct TRITONSERVER_Parameter TRITONSERVER_Parameter;
typedef struct TRITONSERVER_BufferAttributes TRITONSERVER_BufferAttributes;
typedef struct TRITONSERVER_Server TRITONSERVER_Server;
typedef struct TRITONSERVER_InferenceTrace TRITONSERVER_InferenceTrace;

typedef struct TRITONSERVER_InferenceRequest TRITONSERVER_InferenceRequest;
typedef struct TRITONSERVER_InferenceResponse TRITONSERVER_InferenceResponse;
typedef struct TRITONSERVER_ResponseAllocator TRITONSERVER_ResponseAllocator;
typedef struct TRITONSERVER_MetricFamily TRITONSERVER_MetricFamily;
typedef struct TRITONSERVER_Metric TRITONSERVER_Metric;
typedef struct TRITONSERVER_MetricArgs TRITONSERVER_MetricArgs;

typedef struct TRITONBACKEND_Backend TRITONBACKEND_Backend;
typedef struct TRITONBACKEND_Attribute TRITONBACKEND_BackendAttribute;
typedef struct TRITONBACKEND_MemoryManager TRITONBACKEND_MemoryManager;
typedef struct TRITONBACKEND_Model TRITONBACKEND_Model;
typedef struct TRITONBACKEND_ModelInstance TRITONBACKEND_ModelInstance;
typedef struct TRITONBACKEND_Request TRITONBACKEND_Request;
typedef struct TRITONBACKEND_Input TRITONBACKEND_Input;
typedef struct TRITONBACKEND_Output TRITONBACKEND_Output;
typedef struct TRITONBACKEND_State TRITONBACKEND_State;
typedef struct TRITONBACKEND_Response TRITONBACKEND_Response;
typedef struct TRITONBACKEND_ResponseFactory TRITONBACKEND_ResponseFactory;

// What a caller of another model gives, to make the memory of responses, and to get them.
typedef TRITONSERVER_Error *(*allocate_function)(TRITONSERVER_ResponseAllocator *, const char *tensor, size_t size,
    int memory, int64_t memory_id, void *userp, void **buffer, void **buffer_userp, int *actual_memory,
    int64_t *actual_id);
typedef TRITONSERVER_Error *(*free_function)(
    TRITONSERVER_ResponseAllocator *, void *buffer, void *buffer_userp, size_t size, int memory, int64_t memory_id);
typedef TRITONSERVER_Error *(*start_function)(TRITONSERVER_ResponseAllocator *, void *userp);
typedef TRITONSERVER_Error *(*query_function)(TRITONSERVER_ResponseAllocator *, void *userp, const char *tensor,
    size_t *size, int *memory, int64_t *memory_id);
typedef TRITONSERVER_Error *(*attributes_function)(TRITONSERVER_ResponseAllocator *, const char *tensor,
    TRITONSERVER_BufferAttributes *, void *userp, void *buffer_userp);
typedef void (*release_function)(TRITONSERVER_InferenceRequest *, uint32_t flags, void *userp);
typedef void (*response_function)(TRITONSERVER_InferenceResponse *, uint32_t flags, void *userp);

// What a program gives to follow its requests. Times are nanoseconds of the monotonic clock.
typedef void (*activity_function)(TRITONSERVER_InferenceTrace *, int activity, uint64_t time, void *userp);
typedef void (*tensor_activity_function)(TRITONSERVER_InferenceTrace *, int activity, const char *name, int type,
    const void *data, size_t size, const int64_t *shape, uint64_t dims, int memory, int64_t memory_id, void *userp);
typedef void (*trace_release_function)(TRITONSERVER_InferenceTrace *, void *userp);

// The priority levels of a model. A request without a level, or with one beyond the last, has the standard one.
typedef struct {
  uint64_t most, standard;
  bool known;
} priorities;

#endif
