/* What NVML tells of a machine and its GPUs, as Python's pynvml asks it; mig.c has what concerns MIG. */
#include "mig.h"

#include <stddef.h>
#include <string.h>

#define FIELD_LINK_COUNT 91         /* NVML_FI_DEV_NVLINK_LINK_COUNT */
#define FIELD_RECOVERY_ACTION 230   /* NVML_FI_DEV_GET_GPU_RECOVERY_ACTION */
#define FIELD_SWITCH_LINK_COUNT 147 /* NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT */
#define VALUE_IS_UNSIGNED 1         /* NVML_VALUE_TYPE_UNSIGNED_INT */

static int give_text(const char *text, char *into, unsigned length)
{
    if (*text == '\0')
        return NOT_SUPPORTED;
    return (size_t)snprintf(into, length, "%s", text) < length ? SUCCESS : INSUFFICIENT_SIZE;
}

static int give_number(int number, unsigned *into)
{
    if (number == MODEL_UNKNOWN)
        return NOT_SUPPORTED;
    *into = (unsigned)number;
    return SUCCESS;
}

static void name_bus(const struct address *at, char *into, size_t length, const char *format)
{
    snprintf(into, length, format, at->domain, at->bus, at->device, at->function);
}

static void give_pci(const struct address *at, struct pci_info *info)
{
    *info = (struct pci_info){.domain = at->domain, .bus = at->bus, .device = at->device};
    name_bus(at, info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.%X");
    name_bus(at, info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.%X");
}

/* The machine */

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return session_begin();
}

int nvmlInit_v2(void)
{
    return session_begin();
}

int nvmlShutdown(void)
{
    return session_end();
}

const char *nvmlErrorString(int code)
{
    switch (code) {
#define X(name, number, text) \
    case number: return text;
        ERRORS(X)
#undef X
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    int error = session_look();
    return error ? error : give_text(machine.driver, version, length);
}

int nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    int error = session_look();
    return error ? error : give_text(machine.nvml, version, length);
}

int nvmlSystemGetCudaDriverVersion(int *version)
{
    int error = session_look();
    *version = machine.cuda;
    return error;
}

int nvmlSystemGetConfComputeState(struct confidential *state)
{
    int error = session_look();
    if (error == SUCCESS && machine.confidential == MODEL_UNKNOWN)
        error = NOT_SUPPORTED;
    *state = (struct confidential){.feature = machine.confidential == ON};
    return error;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    int error = session_look();
    *count = machine.gpu_count;
    return error;
}

/* Which GPU */

static int give_handle(const struct gpu *gpu, handle *device)
{
    *device = handle_of(GPU_HANDLE, gpu, 0, 0);
    return gpu->lost == OFF_THE_BUS ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *device)
{
    int error = session_look();
    if (error)
        return error;
    return index < machine.gpu_count ? give_handle(&machine.gpus[index], device) : INVALID_ARGUMENT;
}

int nvmlDeviceGetIndex(handle device, unsigned *index)
{
    struct found found;
    int error = find_device(__func__, device, &found);
    if (error == SUCCESS)
        *index = found.compute ? found.compute->device : (unsigned)(found.gpu - machine.gpus);
    return error;
}

int nvmlDeviceGetName(handle device, char *name, unsigned length)
{
    struct found found;
    int error = find_device(__func__, device, &found);
    if (error)
        return error;
    if (found.compute == NULL)
        return give_text(found.gpu->name, name, length);
    char own[NAME_SIZE], whole[2 * NAME_SIZE + 1];
    mig_device_name(&found, own);
    snprintf(whole, sizeof whole, "%s %s", found.gpu->name, own);
    return give_text(whole, name, length);
}

int nvmlDeviceGetUUID(handle device, char *uuid, unsigned length)
{
    struct found found;
    int error = find_device(__func__, device, &found);
    if (error)
        return error;
    if (found.compute == NULL)
        return give_text(found.gpu->uuid, uuid, length);
    char own[NAME_SIZE];
    mig_device_uuid(&found, own);
    return give_text(own, uuid, length);
}

int nvmlDeviceGetPciInfo_v3(handle device, struct pci_info *info)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    give_pci(&gpu->address, info);
    info->pci_device_id = gpu->pci_device_id;
    info->pci_subsystem_id = gpu->pci_subsystem_id;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(handle device, struct memory *memory)
{
    struct found found;
    int error = find_device(__func__, device, &found);
    if (error)
        return error;
    unsigned long long total = found.compute ? mig_device_memory_bytes(&found) : found.gpu->memory_bytes,
                       used = 0;
    for (unsigned row = 0; found.compute == NULL && row < found.gpu->process_count; row++)
        used += found.gpu->processes[row].memory;
    *memory = (struct memory){.total = total, .free = total - used, .used = used};
    return SUCCESS;
}

/* Single values */

#define TEXT_OF_GPU(call, field)                                    \
    int call(handle device, char *text, unsigned length)            \
    {                                                               \
        struct gpu *gpu;                                            \
        int error = find_gpu(__func__, device, &gpu);               \
        return error ? error : give_text(gpu->field, text, length); \
    }

#define NUMBER_OF_GPU(call, expression)                         \
    int call(handle device, unsigned *number)                   \
    {                                                           \
        struct gpu *gpu;                                        \
        int error = find_gpu(__func__, device, &gpu);           \
        return error ? error : give_number(expression, number); \
    }

static int architecture_of(const struct gpu *gpu)
{
    if (gpu->architecture != MODEL_UNKNOWN || model_of(gpu) == NULL)
        return gpu->architecture;
    return (int)model_of(gpu)->generation;
}

TEXT_OF_GPU(nvmlDeviceGetSerial, serial)
TEXT_OF_GPU(nvmlDeviceGetVbiosVersion, vbios)
NUMBER_OF_GPU(nvmlDeviceGetMinorNumber, gpu->minor)
NUMBER_OF_GPU(nvmlDeviceGetArchitecture, architecture_of(gpu))
NUMBER_OF_GPU(nvmlDeviceGetVirtualizationMode, gpu->virtualization)
NUMBER_OF_GPU(nvmlDeviceGetPersistenceMode, gpu->persistence)
NUMBER_OF_GPU(nvmlDeviceGetCurrPcieLinkGeneration, gpu->pcie[0])
NUMBER_OF_GPU(nvmlDeviceGetCurrPcieLinkWidth, gpu->pcie[1])
NUMBER_OF_GPU(nvmlDeviceGetMaxPcieLinkGeneration, gpu->pcie[2])
NUMBER_OF_GPU(nvmlDeviceGetMaxPcieLinkWidth, gpu->pcie[3])
#ifndef OLD_DRIVER
NUMBER_OF_GPU(nvmlDeviceGetNumaNodeId, gpu->numa_node)
NUMBER_OF_GPU(nvmlDeviceGetC2cModeInfoV, gpu->c2c)

int nvmlDeviceGetAddressingMode(handle device, unsigned *version_and_mode)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    if (*version_and_mode != (1u << 24 | 8))
        return ARGUMENT_VERSION_MISMATCH;
    return give_number(gpu->addressing, &version_and_mode[1]);
}
#endif

int nvmlDeviceSetPersistenceMode(handle device, unsigned mode)
{
    struct found found;
    int error = change_begin(__func__, device, GPU_HANDLE, &found);
    if (error)
        return error;
    if (mode > ON)
        return change_end(INVALID_ARGUMENT);
    found.gpu->persistence = (int)mode;
    return change_end(SUCCESS);
}

int nvmlDeviceGetGspFirmwareVersion(handle device, char *version)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    return error ? error : give_text(gpu->gsp, version, 64); /* NVML_GSP_FIRMWARE_VERSION_BUF_SIZE */
}

int nvmlDeviceGetCudaComputeCapability(handle device, int *major, int *minor)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    int capability = gpu->capability;
    if (capability == MODEL_UNKNOWN && model_of(gpu))
        capability = (int)model_of(gpu)->capability;
    if (capability == MODEL_UNKNOWN)
        return NOT_SUPPORTED;
    *major = capability / 10;
    *minor = capability % 10;
    return SUCCESS;
}

/* Memory that errs */

int nvmlDeviceGetEccMode(handle device, unsigned *current, unsigned *pending)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error == SUCCESS)
        error = give_number(gpu->ecc.current, current);
    return error ? error : give_number(gpu->ecc.pending, pending);
}

int nvmlDeviceGetTotalEccErrors(handle device, unsigned uncorrected, unsigned aggregate,
                                unsigned long long *count)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    if (uncorrected > 1 || aggregate > 1)
        return INVALID_ARGUMENT;
    if (gpu->ecc.current != ON)
        return NOT_SUPPORTED;
    *count = gpu->ecc_errors[uncorrected];
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(handle device, unsigned *correctable, unsigned *uncorrectable,
                              unsigned *pending, unsigned *failed)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    if (gpu->remapped[0] == MODEL_UNKNOWN)
        return NOT_SUPPORTED;
    unsigned *into[] = {correctable, uncorrectable, pending, failed};
    for (int row = 0; row < 4; row++)
        *into[row] = (unsigned)gpu->remapped[row];
    return SUCCESS;
}

/* Processes */

static bool is_in(const struct process *process, const struct found *device)
{
    return device->compute == NULL || (process->gpu_instance == device->instance->id &&
                                       process->compute_instance == device->compute->id);
}

static int give_processes(const char *call, handle what, enum process_kind kind, unsigned *count,
                          struct process_info *infos)
{
    struct found device;
    int error = find_device(call, what, &device);
    if (error)
        return error;
    if (device.compute == NULL && device.gpu->mig.current == ON && !session_privileged())
        return NO_PERMISSION;
    unsigned room = *count;
    *count = 0;
    for (unsigned row = 0; row < device.gpu->process_count; row++) {
        const struct process *process = &device.gpu->processes[row];
        if (process->kind != kind || !is_in(process, &device))
            continue;
        if (infos && *count < room)
            infos[*count] = (struct process_info){.pid = process->pid,
                                                  .memory = process->memory,
                                                  .gpu_instance = process->gpu_instance,
                                                  .compute_instance = process->compute_instance};
        ++*count;
    }
    return *count <= room ? SUCCESS : INSUFFICIENT_SIZE;
}

#define PROCESSES_OF_DEVICE(call, kind)                                  \
    int call(handle device, unsigned *count, struct process_info *infos) \
    {                                                                    \
        return give_processes(__func__, device, kind, count, infos);     \
    }

PROCESSES_OF_DEVICE(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE)
PROCESSES_OF_DEVICE(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE)
PROCESSES_OF_DEVICE(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS)
PROCESSES_OF_DEVICE(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS)
PROCESSES_OF_DEVICE(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS)
PROCESSES_OF_DEVICE(nvmlDeviceGetMPSComputeRunningProcesses_v2, MPS)

/* NVLink and fabric */

static int find_link(const char *call, handle device, unsigned number, const struct link **link)
{
    struct gpu *gpu;
    int error = find_gpu(call, device, &gpu);
    if (error)
        return error;
    if (gpu->nvlinks == MODEL_UNKNOWN)
        return NOT_SUPPORTED;
    if (number >= (unsigned)gpu->nvlinks)
        return INVALID_ARGUMENT;
    *link = &gpu->links[number];
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(handle device, unsigned number, unsigned *active)
{
    const struct link *link;
    int error = find_link(__func__, device, number, &link);
    if (error == SUCCESS)
        *active = link->active;
    return error;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(handle device, unsigned number, unsigned *type)
{
    const struct link *link;
    int error = find_link(__func__, device, number, &link);
    if (error == SUCCESS)
        *type = link->remote;
    return error;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(handle device, unsigned number, struct pci_info *info)
{
    const struct link *link;
    int error = find_link(__func__, device, number, &link);
    if (error)
        return error;
    if (!link->active || link->remote == REMOTE_UNKNOWN)
        return NOT_SUPPORTED;
    give_pci(&link->address, info);
    if (link->hidden) { /* as behind the NVSwitches of a GB200 */
        *info = (struct pci_info){.domain = ~0u, .bus = 0xff, .device = 0xff};
        snprintf(info->bus_id, sizeof info->bus_id, "FFFFFFFF:FF:FF.0");
        snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "FFFF:FF:FF.0");
    }
    return SUCCESS;
}

static int count_links(const struct gpu *gpu, unsigned field, unsigned *count)
{
    if (gpu->nvlinks == MODEL_UNKNOWN)
        return NOT_SUPPORTED;
    if (field == FIELD_LINK_COUNT)
        *count = (unsigned)gpu->nvlinks;
    else
        for (int link = 0; link < gpu->nvlinks; link++)
            *count += gpu->links[link].active && gpu->links[link].remote == REMOTE_SWITCH;
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(handle device, int count, struct field_value *values)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    for (int row = 0; error == SUCCESS && row < count; row++) {
        struct field_value *value = &values[row];
        value->type = VALUE_IS_UNSIGNED;
        value->value.large = 0;
        value->error = NOT_SUPPORTED;
        if (value->field == FIELD_LINK_COUNT || value->field == FIELD_SWITCH_LINK_COUNT)
            value->error = count_links(gpu, value->field, &value->value.number);
        if (value->field == FIELD_RECOVERY_ACTION)
            value->error = give_number(gpu->recovery, &value->value.number);
    }
    return error;
}

/* Without version and health. */
int nvmlDeviceGetGpuFabricInfo(handle device, struct fabric_info_v1 *info)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    if (gpu->fabric == MODEL_UNKNOWN)
        return NOT_SUPPORTED;
    *info = (struct fabric_info_v1){
        .status = gpu->fabric_status, .clique = gpu->clique, .state = (unsigned char)gpu->fabric};
    memcpy(info->cluster, gpu->cluster, sizeof info->cluster);
    return SUCCESS;
}

#ifndef OLD_DRIVER /* the symbol came with driver 550 */
int nvmlDeviceGetGpuFabricInfoV(handle device, struct fabric_info *info)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    bool third = info->version == STRUCT_VERSION(struct fabric_info, 3);
    if (!third && info->version != (2u << 24 | offsetof(struct fabric_info, health_summary)))
        return ARGUMENT_VERSION_MISMATCH;
    if (gpu->fabric == MODEL_UNKNOWN)
        return NOT_SUPPORTED;
    info->status = gpu->fabric_status;
    info->clique = gpu->clique;
    info->state = (unsigned char)gpu->fabric;
    info->health_mask = gpu->fabric_health;
    memcpy(info->cluster, gpu->cluster, sizeof info->cluster);
    if (third) /* NVML_GPU_FABRIC_HEALTH_SUMMARY_*: healthy, unhealthy */
        info->health_summary = gpu->fabric_status == SUCCESS && gpu->fabric_health == 0 ? 1 : 2;
    return SUCCESS;
}
#endif
