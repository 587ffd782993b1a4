/* The use of the library by one process: whether it is initialised, what its handles mean, and how a change is made. */
#ifndef SESSION_H
#define SESSION_H

#include "model.h"

/* A handle is a number that says what it names; it is never dereferenced. */
typedef const void *handle;

enum handle_kind { GPU_HANDLE = 1, GPU_INSTANCE_HANDLE, COMPUTE_INSTANCE_HANDLE, MIG_DEVICE_HANDLE };

struct found { /* what a handle names; NULL below its own kind */
    struct gpu *gpu;
    struct gpu_instance *instance;
    struct compute_instance *compute;
};

extern struct machine machine;

int session_begin(void);
int session_end(void);

/* Reads the machine as it is now. */
int session_look(void);

handle handle_of(enum handle_kind kind, const struct gpu *gpu, unsigned instance, unsigned compute);

/* Finds what a handle names for the call of that name: UNINITIALIZED, INVALID_ARGUMENT, GPU_IS_LOST, an injected error. */
int find(const char *call, handle what, enum handle_kind kind, struct found *found);
int find_gpu(const char *call, handle what, struct gpu **gpu);

/* A GPU, or a MIG device of one. */
int find_device(const char *call, handle what, struct found *found);

/* The same with the lock taken and privileges checked, for a change that `change_end` keeps when `error` is SUCCESS. */
int change_begin(const char *call, handle what, enum handle_kind kind, struct found *found);
int change_end(int error);

bool session_privileged(void);

/* What the driver does in a reset: pending settings hold, instances are gone. IN_USE, NOT_SUPPORTED. */
int reset_gpu(struct gpu *gpu);
int can_reset(const struct gpu *gpu);
bool gpu_in_use(const struct gpu *gpu);

#endif
