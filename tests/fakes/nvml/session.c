#include "session.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

struct machine machine;
static unsigned users;
static int lock = -1, client = -1;
static bool killed_after; /* the change that is under way */

int session_look(void)
{
    if (!users)
        return UNINITIALIZED;
    if (machine.state[0] == '\0')
        return SUCCESS; /* what was done to it is known to this process alone */
    return model_read(&machine) ? SUCCESS : UNKNOWN;
}

int session_begin(void)
{
    if (users == 0) {
        if (!model_read(&machine))
            return DRIVER_NOT_LOADED;
        if (machine.state[0] && access(machine.state, F_OK) != 0) { /* from here on, a boot is seen */
            lock = model_lock(&machine);
            if (access(machine.state, F_OK) != 0)
                (void)model_write(&machine);
            model_unlock(lock);
        }
        client = model_attach(&machine);
    }
    users++;
    return SUCCESS;
}

int session_end(void)
{
    if (users == 0)
        return UNINITIALIZED;
    if (--users == 0)
        model_unlock(client);
    return SUCCESS;
}

bool session_privileged(void)
{
    return machine.privileged == EVERYONE || (machine.privileged == ROOT && geteuid() == 0);
}

handle handle_of(enum handle_kind kind, const struct gpu *gpu, unsigned instance, unsigned compute)
{
    uintptr_t index = (uintptr_t)(gpu - machine.gpus);
    return (handle)((uintptr_t)kind << 24 | index << 16 | (uintptr_t)instance << 8 | compute);
}

static bool find_instances(uintptr_t number, enum handle_kind kind, struct found *found)
{
    struct gpu *gpu = found->gpu;
    for (unsigned row = 0; row < gpu->instance_count; row++)
        if (gpu->instances[row].id == (number >> 8 & 0xff))
            found->instance = &gpu->instances[row];
    if (found->instance == NULL || kind == GPU_INSTANCE_HANDLE)
        return found->instance != NULL;
    for (unsigned row = 0; row < found->instance->compute_count; row++)
        if (found->instance->computes[row].id == (number & 0xff))
            found->compute = &found->instance->computes[row];
    return found->compute != NULL;
}

static int injected_error(const struct gpu *gpu, const char *call)
{
    for (unsigned row = 0; row < gpu->fault_count; row++)
        if (gpu->faults[row].nth == 0 && strcmp(gpu->faults[row].call, call) == 0)
            return gpu->faults[row].error;
    return SUCCESS;
}

static int look_up(const char *call, handle what, enum handle_kind kind, struct found *found)
{
    uintptr_t number = (uintptr_t)what, index = number >> 16 & 0xff;
    *found = (struct found){0};
    if (number >> 24 != kind || index >= machine.gpu_count)
        return INVALID_ARGUMENT;
    found->gpu = &machine.gpus[index];
    if (found->gpu->lost != PRESENT)
        return GPU_IS_LOST;
    if (kind != GPU_HANDLE && !find_instances(number, kind, found))
        return INVALID_ARGUMENT;
    return injected_error(found->gpu, call);
}

int find(const char *call, handle what, enum handle_kind kind, struct found *found)
{
    int error = session_look();
    return error ? error : look_up(call, what, kind, found);
}

int find_gpu(const char *call, handle what, struct gpu **gpu)
{
    struct found found;
    int error = find(call, what, GPU_HANDLE, &found);
    *gpu = found.gpu;
    return error;
}

int find_device(const char *call, handle what, struct found *found)
{
    bool mig = (uintptr_t)what >> 24 == MIG_DEVICE_HANDLE;
    return find(call, what, mig ? MIG_DEVICE_HANDLE : GPU_HANDLE, found);
}

static void die(void)
{
    (void)raise(SIGKILL);
}

/* Counts this call for the faults of its name, and gives the error of the one whose turn it is. */
static int next_fault(struct gpu *gpu, const char *call)
{
    int error = SUCCESS;
    bool counted = false;
    for (unsigned row = 0; row < gpu->fault_count; row++) {
        struct fault *fault = &gpu->faults[row];
        if (strcmp(fault->call, call) != 0)
            continue;
        counted = true;
        if (++fault->calls == fault->nth)
            error = fault->error;
    }
    if (counted && !model_write(&machine))
        return UNKNOWN;
    if (error == MODEL_KILLED_BEFORE) {
        model_write_half(&machine);
        die();
    }
    killed_after = error == MODEL_KILLED_AFTER;
    return killed_after ? SUCCESS : error;
}

static int begin_locked(const char *call, handle what, enum handle_kind kind, struct found *found)
{
    int error = find(call, what, kind, found);
    if (error == SUCCESS && !session_privileged())
        error = NO_PERMISSION;
    return error ? error : next_fault(found->gpu, call);
}

int change_begin(const char *call, handle what, enum handle_kind kind, struct found *found)
{
    if (!users)
        return UNINITIALIZED;
    lock = model_lock(&machine);
    killed_after = false;
    int error = begin_locked(call, what, kind, found);
    return error ? change_end(error) : SUCCESS;
}

int change_end(int error)
{
    if (error == SUCCESS && !model_write(&machine))
        error = UNKNOWN;
    if (killed_after)
        die();
    model_unlock(lock);
    lock = -1;
    return error;
}

bool gpu_in_use(const struct gpu *gpu)
{
    return gpu->held || gpu->process_count > 0;
}

int can_reset(const struct gpu *gpu)
{
    if (gpu->virtualization == PASSTHROUGH || gpu->virtualization == VGPU)
        return NOT_SUPPORTED;
    return gpu_in_use(gpu) ? IN_USE : SUCCESS;
}

int reset_gpu(struct gpu *gpu)
{
    int error = can_reset(gpu);
    if (error)
        return error;
    gpu->mig.current = gpu->mig.pending;
    gpu->ecc.current = gpu->ecc.pending;
    if (gpu->remapped[0] != MODEL_UNKNOWN)
        gpu->remapped[2] = 0;
    gpu->instance_count = 0;
    return SUCCESS;
}
