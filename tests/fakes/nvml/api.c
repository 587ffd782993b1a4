/* The entry points of libnvidia-ml.so.1 that Python's pynvml resolves, answered from the model. */
#include "model.h"

#include <stdio.h>
#include <string.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    ARGUMENT_VERSION_MISMATCH = 25
};

#define FABRIC_INFO_V2 0x02000024u /* sizeof | version << 24, as NVML makes its structure versions */

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};
_Static_assert(sizeof(struct pci_info) == 68, "nvmlPciInfo_t");

struct memory {
    unsigned long long total, free, used;
};
_Static_assert(sizeof(struct memory) == 24, "nvmlMemory_t");

struct fabric_info {
    unsigned version;
    unsigned char cluster[MODEL_UUID_BYTES];
    unsigned status, clique;
    unsigned char state;
    unsigned health_mask;
};
_Static_assert(sizeof(struct fabric_info) == 36, "nvmlGpuFabricInfo_v2_t");

static struct machine machine;
static unsigned users;

static bool is_gpu(const struct gpu *gpu)
{
    return users && gpu >= machine.gpus && gpu < machine.gpus + machine.gpu_count;
}

static int give_text(const char *text, char *into, unsigned length)
{
    return (size_t)snprintf(into, length, "%s", text) < length ? SUCCESS : INSUFFICIENT_SIZE;
}

static void bus_id_of(const struct gpu *gpu, char *into, size_t length, const char *format)
{
    snprintf(into, length, format, gpu->domain, gpu->bus, gpu->device, gpu->function);
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    if (users == 0 && !model_read(&machine))
        return DRIVER_NOT_LOADED;
    users++;
    return SUCCESS;
}

int nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

int nvmlShutdown(void)
{
    if (users == 0)
        return UNINITIALIZED;
    users--;
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case ARGUMENT_VERSION_MISMATCH: return "Argument Version Mismatch";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    return users ? give_text(machine.driver, version, length) : UNINITIALIZED;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!users)
        return UNINITIALIZED;
    *count = machine.gpu_count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **gpu)
{
    if (!users)
        return UNINITIALIZED;
    if (index >= machine.gpu_count)
        return INVALID_ARGUMENT;
    *gpu = &machine.gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct gpu **gpu)
{
    for (unsigned index = 0; users && index < machine.gpu_count; index++) {
        *gpu = &machine.gpus[index];
        if (strcmp((*gpu)->uuid, uuid) == 0)
            return SUCCESS;
    }
    return users ? NOT_FOUND : UNINITIALIZED;
}

int nvmlDeviceGetIndex(const struct gpu *gpu, unsigned *index)
{
    if (!is_gpu(gpu))
        return INVALID_ARGUMENT;
    *index = (unsigned)(gpu - machine.gpus);
    return SUCCESS;
}

int nvmlDeviceGetName(const struct gpu *gpu, char *name, unsigned length)
{
    return is_gpu(gpu) ? give_text(gpu->name, name, length) : INVALID_ARGUMENT;
}

int nvmlDeviceGetUUID(const struct gpu *gpu, char *uuid, unsigned length)
{
    return is_gpu(gpu) ? give_text(gpu->uuid, uuid, length) : INVALID_ARGUMENT;
}

int nvmlDeviceGetPciInfo_v3(const struct gpu *gpu, struct pci_info *info)
{
    if (!is_gpu(gpu))
        return INVALID_ARGUMENT;
    *info = (struct pci_info){
        .domain = gpu->domain, .bus = gpu->bus, .device = gpu->device, .pci_device_id = gpu->pci_device_id};
    bus_id_of(gpu, info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.%X");
    bus_id_of(gpu, info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.%X");
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(const struct gpu *gpu, struct memory *memory)
{
    if (!is_gpu(gpu))
        return INVALID_ARGUMENT;
    *memory = (struct memory){.total = gpu->memory_bytes, .free = gpu->memory_bytes};
    return SUCCESS;
}

int nvmlDeviceGetMigMode(const struct gpu *gpu, unsigned *current, unsigned *pending)
{
    if (!is_gpu(gpu))
        return INVALID_ARGUMENT;
    if (gpu->mig_current == MIG_UNSUPPORTED)
        return NOT_SUPPORTED;
    *current = gpu->mig_current == MIG_ENABLED;
    *pending = gpu->mig_pending == MIG_ENABLED;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(const struct gpu *gpu, unsigned link, unsigned *active)
{
    if (!is_gpu(gpu))
        return INVALID_ARGUMENT;
    if (gpu->nvlinks < 0)
        return NOT_SUPPORTED;
    if (link >= 18) /* the number of links of every board since Hopper */
        return INVALID_ARGUMENT;
    *active = link < (unsigned)gpu->nvlinks;
    return SUCCESS;
}

#ifndef OLD_DRIVER /* the symbol came with driver 550 */
int nvmlDeviceGetGpuFabricInfoV(const struct gpu *gpu, struct fabric_info *info)
{
    if (!is_gpu(gpu))
        return INVALID_ARGUMENT;
    if (info->version != FABRIC_INFO_V2)
        return ARGUMENT_VERSION_MISMATCH;
    if (gpu->fabric == FABRIC_UNSUPPORTED)
        return NOT_SUPPORTED;
    info->status = SUCCESS;
    info->clique = gpu->clique;
    info->state = (unsigned char)gpu->fabric;
    info->health_mask = 0;
    memcpy(info->cluster, gpu->cluster, sizeof info->cluster);
    return SUCCESS;
}
#endif
