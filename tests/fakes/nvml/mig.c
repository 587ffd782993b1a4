/* The life of MIG: mode, GPU instances, compute instances, MIG devices. Errors as in nvml.h of CUDA 13. */
#include "mig.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GPU_PROFILES 18    /* NVML_GPU_INSTANCE_PROFILE_COUNT */
#define COMPUTE_PROFILES 9 /* NVML_COMPUTE_INSTANCE_PROFILE_COUNT */
#define FIRST_TO_LIST_WITHOUT_MIG \
    550 /* drivers before it know a GPU's profiles only while its MIG mode is on */

static bool mig_is_on(const struct gpu *gpu)
{
    return model_has_mig(gpu) && gpu->mig.current == ON;
}

/* Mode */

int nvmlDeviceGetMigMode(handle device, unsigned *current, unsigned *pending)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    if (!model_has_mig(gpu))
        return NOT_SUPPORTED;
    *current = gpu->mig.current == ON;
    *pending = gpu->mig.pending == ON;
    return SUCCESS;
}

static bool needs_reset(const struct gpu *gpu)
{
    return model_of(gpu) && model_of(gpu)->generation == AMPERE;
}

/* Tries to have the pending mode hold, and says why it does not. */
static int activate(struct gpu *gpu)
{
    if (gpu->mig.current == gpu->mig.pending)
        return SUCCESS;
    if (gpu->process_count || gpu->instance_count)
        return IN_USE;
    if (needs_reset(gpu)) {
        if (gpu_in_use(gpu))
            return IN_USE;
        return gpu->reset == RESET_BY_ITSELF && reset_gpu(gpu) == SUCCESS ? SUCCESS : RESET_REQUIRED;
    }
    gpu->mig.current = gpu->mig.pending;
    return SUCCESS;
}

int nvmlDeviceSetMigMode(handle device, unsigned mode, unsigned *activation)
{
    struct found found;
    int error = change_begin(__func__, device, GPU_HANDLE, &found);
    if (error)
        return error;
    if (mode > ON)
        return change_end(INVALID_ARGUMENT);
    if (!model_has_mig(found.gpu) || found.gpu->virtualization == VGPU)
        return change_end(NOT_SUPPORTED);
    found.gpu->mig.pending = (int)mode;
    *activation = (unsigned)activate(found.gpu);
    return change_end(SUCCESS);
}

/* Profiles of GPU instances */

static unsigned profile_row(const struct model *model, const struct profile *profile)
{
    return (unsigned)(profile - model->profiles);
}

/* The gigabytes in a name are the share of the memory, rounded (go-nvlib, getMigMemorySizeGB). */
static void name_profile(const struct gpu *gpu, const struct profile *profile, unsigned compute_slices,
                         char *name)
{
    const struct model *model = model_of(gpu);
    unsigned gigabytes =
        gpu->memory_bytes ? (unsigned)((gpu->memory_bytes + (1u << 30) - 1) >> 30) : model->gigabytes;
    unsigned share = (2 * profile->size * gigabytes + model->memory_slices) / (2 * model->memory_slices);
    char part[16] = "";
    if (compute_slices != profile->slices)
        snprintf(part, sizeof part, "%uc.", compute_slices);
    snprintf(name, NAME_SIZE, "MIG %s%ug.%ugb%s", part, profile->slices, share, profile->attributes);
}

void gpu_instance_name(const struct gpu *gpu, const struct profile *profile, char name[NAME_SIZE])
{
    name_profile(gpu, profile, profile->slices, name);
}

static struct gpu_profile_info describe_profile(const struct gpu *gpu, const struct profile *profile)
{
    const struct model *model = model_of(gpu);
    unsigned row = profile_row(model, profile);
    return (struct gpu_profile_info){.id = profile->id,
                                     .slices = profile->slices,
                                     .instances = profile->limit,
                                     .multiprocessors = model->multiprocessors[row],
                                     .engines = model->engines[row],
                                     .memory_mib = model->memory_mib[row]};
}

static bool lists_profiles(const struct gpu *gpu)
{
    return mig_is_on(gpu) || (model_has_mig(gpu) && atoi(machine.driver) >= FIRST_TO_LIST_WITHOUT_MIG);
}

static int find_offer(const struct gpu *gpu, const struct profile *profile)
{
    return lists_profiles(gpu) && profile ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetGpuInstanceProfileInfo(handle device, unsigned kind, struct gpu_profile_info *info)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    if (kind >= GPU_PROFILES)
        return INVALID_ARGUMENT;
    const struct profile *profile = profile_by_kind(model_of(gpu), kind);
    if ((error = find_offer(gpu, profile)) == SUCCESS)
        *info = describe_profile(gpu, profile);
    return error;
}

static int give_profile(const struct gpu *gpu, const struct profile *profile,
                        struct gpu_profile_info_v2 *info)
{
    if (info->version != STRUCT_VERSION(struct gpu_profile_info_v2, 2))
        return ARGUMENT_VERSION_MISMATCH;
    int error = find_offer(gpu, profile);
    if (error)
        return error;
    struct gpu_profile_info found = describe_profile(gpu, profile);
    info->version = 0; /* as driver 580 leaves it */
    memcpy(&info->id, &found.id, offsetof(struct gpu_profile_info, memory_mib));
    info->memory_mib = found.memory_mib;
    gpu_instance_name(gpu, profile, info->name);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceProfileInfoV(handle device, unsigned kind, struct gpu_profile_info_v2 *info)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    if (kind >= GPU_PROFILES)
        return INVALID_ARGUMENT;
    return give_profile(gpu, profile_by_kind(model_of(gpu), kind), info);
}

/* Placement */

static unsigned mask_of(const struct profile *profile, unsigned start)
{
    return ((1u << profile->size) - 1) << start;
}

static unsigned occupied(const struct gpu *gpu)
{
    unsigned mask = 0;
    for (unsigned row = 0; row < gpu->instance_count; row++)
        mask |= mask_of(gpu->instances[row].profile, gpu->instances[row].start);
    return mask;
}

static const struct engines *engines_of(const struct gpu *gpu, const struct profile *profile)
{
    return &model_of(gpu)->engines[profile - model_of(gpu)->profiles];
}

/* How many more fit by all that is counted: compute slices, the limit of the profile, media engines. */
static unsigned count_left(const struct gpu *gpu, const struct profile *profile)
{
    const struct engines *all = engines_of(gpu, profile_by_id(model_of(gpu), 0)), *needs = engines_of(gpu, profile);
    unsigned slices = model_of(gpu)->compute_slices, same = 0;
    unsigned decoders = all->decoders, ofa = all->ofa;
    for (unsigned row = 0; row < gpu->instance_count; row++) {
        const struct profile *other = gpu->instances[row].profile;
        slices -= other->slices;
        same += other == profile;
        decoders -= engines_of(gpu, other)->decoders;
        ofa -= engines_of(gpu, other)->ofa;
    }
    if (decoders < needs->decoders || ofa < needs->ofa)
        return 0;
    unsigned by_limit = profile->limit > same ? profile->limit - same : 0,
             by_slices = slices / profile->slices;
    return by_limit < by_slices ? by_limit : by_slices;
}

static unsigned capacity_left(const struct gpu *gpu, const struct profile *profile)
{
    unsigned mask = occupied(gpu), places = 0, counted = count_left(gpu, profile);
    for (const int *start = profile->starts; *start >= 0; start++)
        places += !(mask & mask_of(profile, (unsigned)*start)); /* placements of one profile never overlap */
    return places < counted ? places : counted;
}

static bool is_placement(const struct profile *profile, unsigned start, unsigned size)
{
    for (const int *possible = profile->starts; *possible >= 0; possible++)
        if ((unsigned)*possible == start)
            return size == profile->size;
    return false;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(handle device, unsigned id, struct placement *placements,
                                                  unsigned *count)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    const struct profile *profile = profile_by_id(model_of(gpu), id);
    if (!session_privileged())
        return NO_PERMISSION;
    if (!model_has_mig(gpu) || profile == NULL)
        return NOT_SUPPORTED;
    *count = 0;
    for (unsigned start = 0; start < model_of(gpu)->memory_slices; start++)
        if (is_placement(profile, start, profile->size)) {
            if (placements)
                placements[*count] = (struct placement){start, profile->size};
            ++*count;
        }
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceRemainingCapacity(handle device, unsigned id, unsigned *count)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    const struct profile *profile = profile_by_id(model_of(gpu), id);
    if (!session_privileged())
        return NO_PERMISSION;
    if ((error = find_offer(gpu, profile)) == SUCCESS)
        *count = capacity_left(gpu, profile);
    return error;
}

/* GPU instances */

static int create(struct gpu *gpu, const struct profile *profile, unsigned start, handle *created)
{
    if (count_left(gpu, profile) == 0 || occupied(gpu) & mask_of(profile, start))
        return INSUFFICIENT_RESOURCES;
    unsigned id = model_instance_id(model_of(gpu), profile, start);
    gpu->instances[gpu->instance_count++] =
        (struct gpu_instance){.id = id, .profile = profile, .start = start};
    *created = handle_of(GPU_INSTANCE_HANDLE, gpu, id, 0);
    return SUCCESS;
}

static int can_create(const struct gpu *gpu, const struct profile *profile)
{
    if (!mig_is_on(gpu) || gpu->virtualization == VGPU)
        return NOT_SUPPORTED;
    return profile ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceCreateGpuInstance(handle device, unsigned id, handle *created)
{
    struct found found;
    int error = change_begin(__func__, device, GPU_HANDLE, &found);
    if (error)
        return error;
    const struct profile *profile = profile_by_id(model_of(found.gpu), id);
    if ((error = can_create(found.gpu, profile)))
        return change_end(error);
    error = INSUFFICIENT_RESOURCES;
    for (const int *start = profile->starts; *start >= 0 && error == INSUFFICIENT_RESOURCES; start++)
        error = create(found.gpu, profile, (unsigned)*start, created);
    return change_end(error);
}

int nvmlDeviceCreateGpuInstanceWithPlacement(handle device, unsigned id, const struct placement *where,
                                             handle *created)
{
    struct found found;
    int error = change_begin(__func__, device, GPU_HANDLE, &found);
    if (error)
        return error;
    const struct profile *profile = profile_by_id(model_of(found.gpu), id);
    error = can_create(found.gpu, profile);
    if (error == SUCCESS && !is_placement(profile, where->start, where->size))
        error = INVALID_ARGUMENT;
    return change_end(error ? error : create(found.gpu, profile, where->start, created));
}

int nvmlDeviceGetGpuInstances(handle device, unsigned id, handle *instances, unsigned *count)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    if (!lists_profiles(gpu))
        return NOT_SUPPORTED;
    if (!session_privileged())
        return NO_PERMISSION;
    if (profile_by_id(model_of(gpu), id) == NULL)
        return INVALID_ARGUMENT;
    *count = 0;
    for (unsigned row = 0; row < gpu->instance_count; row++)
        if (gpu->instances[row].profile->id == id)
            instances[(*count)++] = handle_of(GPU_INSTANCE_HANDLE, gpu, gpu->instances[row].id, 0);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceById(handle device, unsigned id, handle *instance)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    if (!mig_is_on(gpu))
        return NOT_SUPPORTED;
    if (!session_privileged())
        return NO_PERMISSION;
    *instance = handle_of(GPU_INSTANCE_HANDLE, gpu, id & 0xff, 0);
    struct found found;
    return find(__func__, *instance, GPU_INSTANCE_HANDLE, &found) == SUCCESS ? SUCCESS : NOT_FOUND;
}

int nvmlGpuInstanceGetInfo(handle what, struct gpu_instance_info *info)
{
    struct found found;
    int error = find(__func__, what, GPU_INSTANCE_HANDLE, &found);
    if (error)
        return error;
    *info = (struct gpu_instance_info){.device = (void *)handle_of(GPU_HANDLE, found.gpu, 0, 0),
                                       .id = found.instance->id,
                                       .profile = found.instance->profile->id,
                                       .placement = {found.instance->start, found.instance->profile->size}};
    return SUCCESS;
}

/* A process without an instance of its own is taken to be in all of them. */
static bool has_process(const struct gpu *gpu, unsigned instance, unsigned compute)
{
    for (unsigned row = 0; row < gpu->process_count; row++) {
        const struct process *process = &gpu->processes[row];
        if ((process->gpu_instance == instance || process->gpu_instance == MODEL_EVERYWHERE) &&
            (compute == MODEL_EVERYWHERE || process->compute_instance == compute ||
             process->compute_instance == MODEL_EVERYWHERE))
            return true;
    }
    return false;
}

int nvmlGpuInstanceDestroy(handle what)
{
    struct found found;
    int error = change_begin(__func__, what, GPU_INSTANCE_HANDLE, &found);
    if (error)
        return error;
    struct gpu *gpu = found.gpu;
    if (gpu->virtualization == VGPU)
        return change_end(NOT_SUPPORTED);
    if (found.instance->compute_count || has_process(gpu, found.instance->id, MODEL_EVERYWHERE))
        return change_end(IN_USE);
    struct gpu_instance *end = gpu->instances + gpu->instance_count--;
    memmove(found.instance, found.instance + 1, (size_t)((char *)end - (char *)(found.instance + 1)));
    return change_end(SUCCESS);
}

/* Compute instances */

static const unsigned compute_slices[COMPUTE_PROFILES] = {1, 2, 3, 4, 7, 8, 6, 1, 7};

/* As `nvidia-smi mig -lcip` lists them: 1c, 2c and the whole; 3c and 4c in a GPU instance of seven as well.
 */
static bool offers_compute(const struct profile *profile, unsigned id)
{
    if (id > 4)
        return false;
    unsigned slices = compute_slices[id];
    return slices == profile->slices || (slices < profile->slices && (slices <= 2 || profile->slices == 7));
}

static struct compute_profile_info describe_compute(const struct found *found, unsigned id)
{
    const struct model *model = model_of(found->gpu);
    const struct profile *profile = found->instance->profile;
    unsigned row = profile_row(model, profile), slices = compute_slices[id];
    return (struct compute_profile_info){.id = id,
                                         .slices = slices,
                                         .instances = profile->slices / slices,
                                         .multiprocessors =
                                             model->multiprocessors[row] * slices / profile->slices,
                                         .shared = model->engines[row]};
}

static int find_compute_profile(const char *call, handle what, unsigned kind, unsigned engine,
                                struct found *found)
{
    int error = find(call, what, GPU_INSTANCE_HANDLE, found);
    if (error)
        return error;
    if (kind >= COMPUTE_PROFILES || engine != 0)
        return INVALID_ARGUMENT;
    return offers_compute(found->instance->profile, kind) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfo(handle what, unsigned kind, unsigned engine,
                                                 struct compute_profile_info *info)
{
    struct found found;
    int error = find_compute_profile(__func__, what, kind, engine, &found);
    if (error == SUCCESS)
        *info = describe_compute(&found, kind);
    return error;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfoV(handle what, unsigned kind, unsigned engine,
                                                  struct compute_profile_info_v2 *info)
{
    struct found found;
    int error = find_compute_profile(__func__, what, kind, engine, &found);
    if (error)
        return error;
    if (info->version != STRUCT_VERSION(struct compute_profile_info_v2, 2))
        return ARGUMENT_VERSION_MISMATCH;
    struct compute_profile_info described = describe_compute(&found, kind);
    memcpy(&info->id, &described, sizeof described);
    name_profile(found.gpu, found.instance->profile, described.slices, info->name);
    return SUCCESS;
}

static unsigned occupied_slices(const struct gpu_instance *instance)
{
    unsigned mask = 0;
    for (unsigned row = 0; row < instance->compute_count; row++)
        mask |= ((1u << compute_slices[instance->computes[row].profile]) - 1)
                << instance->computes[row].start;
    return mask;
}

/* The first run of free compute slices; the number of all of them where there is none. */
static unsigned free_start(const struct gpu_instance *instance, unsigned slices)
{
    unsigned mask = occupied_slices(instance), start = 0;
    while (start + slices <= instance->profile->slices && mask >> start & ((1u << slices) - 1))
        start++;
    return start + slices <= instance->profile->slices ? start : instance->profile->slices;
}

static bool device_index_taken(const struct gpu *gpu, unsigned index)
{
    for (unsigned row = 0; row < gpu->instance_count; row++)
        for (unsigned column = 0; column < gpu->instances[row].compute_count; column++)
            if (gpu->instances[row].computes[column].device == index)
                return true;
    return false;
}

static bool compute_id_taken(const struct gpu_instance *instance, unsigned id)
{
    for (unsigned row = 0; row < instance->compute_count; row++)
        if (instance->computes[row].id == id)
            return true;
    return false;
}

int nvmlGpuInstanceCreateComputeInstance(handle what, unsigned id, handle *created)
{
    struct found found;
    int error = change_begin(__func__, what, GPU_INSTANCE_HANDLE, &found);
    if (error)
        return error;
    struct gpu_instance *instance = found.instance;
    if (!offers_compute(instance->profile, id))
        return change_end(NOT_SUPPORTED);
    struct compute_instance compute = {.profile = id, .start = free_start(instance, compute_slices[id])};
    if (compute.start == instance->profile->slices)
        return change_end(INSUFFICIENT_RESOURCES);
    while (compute_id_taken(instance, compute.id))
        compute.id++;
    while (device_index_taken(found.gpu, compute.device))
        compute.device++;
    instance->computes[instance->compute_count++] = compute;
    *created = handle_of(COMPUTE_INSTANCE_HANDLE, found.gpu, instance->id, compute.id);
    return change_end(SUCCESS);
}

int nvmlGpuInstanceGetComputeInstances(handle what, unsigned id, handle *computes, unsigned *count)
{
    struct found found;
    int error = find_compute_profile(__func__, what, id, 0, &found);
    if (error)
        return error;
    if (!session_privileged())
        return NO_PERMISSION;
    *count = 0;
    for (unsigned row = 0; row < found.instance->compute_count; row++)
        if (found.instance->computes[row].profile == id)
            computes[(*count)++] = handle_of(COMPUTE_INSTANCE_HANDLE, found.gpu, found.instance->id,
                                             found.instance->computes[row].id);
    return SUCCESS;
}

int nvmlGpuInstanceGetComputeInstanceById(handle what, unsigned id, handle *compute)
{
    struct found found;
    int error = find(__func__, what, GPU_INSTANCE_HANDLE, &found);
    if (error)
        return error;
    *compute = handle_of(COMPUTE_INSTANCE_HANDLE, found.gpu, found.instance->id, id & 0xff);
    return compute_id_taken(found.instance, id) ? SUCCESS : NOT_FOUND;
}

int nvmlComputeInstanceGetInfo_v2(handle what, struct compute_instance_info *info)
{
    struct found found;
    int error = find(__func__, what, COMPUTE_INSTANCE_HANDLE, &found);
    if (error)
        return error;
    *info = (struct compute_instance_info){
        .device = (void *)handle_of(GPU_HANDLE, found.gpu, 0, 0),
        .gpu_instance = (void *)handle_of(GPU_INSTANCE_HANDLE, found.gpu, found.instance->id, 0),
        .id = found.compute->id,
        .profile = found.compute->profile,
        .placement = {found.compute->start, compute_slices[found.compute->profile]}};
    return SUCCESS;
}

int nvmlComputeInstanceDestroy(handle what)
{
    struct found found;
    int error = change_begin(__func__, what, COMPUTE_INSTANCE_HANDLE, &found);
    if (error)
        return error;
    if (has_process(found.gpu, found.instance->id, found.compute->id))
        return change_end(IN_USE);
    struct compute_instance *end = found.instance->computes + found.instance->compute_count--;
    memmove(found.compute, found.compute + 1, (size_t)((char *)end - (char *)(found.compute + 1)));
    return change_end(SUCCESS);
}

/* MIG devices: a compute instance each, at the lowest index that was free when it was created. */

void mig_device_name(const struct found *device, char name[NAME_SIZE])
{
    name_profile(device->gpu, device->instance->profile, compute_slices[device->compute->profile], name);
}

unsigned long long mig_device_memory_bytes(const struct found *device)
{
    return describe_profile(device->gpu, device->instance->profile).memory_mib << 20;
}

void mig_device_uuid(const struct found *device, char uuid[NAME_SIZE])
{
    char source[NAME_SIZE + 32];
    snprintf(source, sizeof source, "%s/%u/%u", device->gpu->uuid, device->instance->id, device->compute->id);
    uint64_t halves[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u}; /* FNV-1a, from two beginnings */
    for (const char *text = source; *text; text++)
        for (int half = 0; half < 2; half++)
            halves[half] = (halves[half] ^ (unsigned char)*text) * 0x100000001b3u;
    snprintf(uuid, NAME_SIZE, "MIG-%08x-%04x-5%03x-%04x-%012llx", (unsigned)(halves[0] >> 32),
             (unsigned)(halves[0] >> 16 & 0xffff), (unsigned)(halves[0] & 0xfff),
             (unsigned)(halves[1] >> 48 & 0x3fff) | 0x8000, (unsigned long long)(halves[1] & 0xffffffffffff));
}

int nvmlDeviceGetMaxMigDeviceCount(handle device, unsigned *count)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error == SUCCESS)
        *count = mig_is_on(gpu) && model_of(gpu) ? model_of(gpu)->compute_slices : 0;
    return error;
}

int nvmlDeviceGetMigDeviceHandleByIndex(handle device, unsigned index, handle *mig_device)
{
    struct gpu *gpu;
    int error = find_gpu(__func__, device, &gpu);
    if (error)
        return error;
    if (!mig_is_on(gpu))
        return model_has_mig(gpu) ? NOT_FOUND : NOT_SUPPORTED;
    if (model_of(gpu) == NULL || index >= model_of(gpu)->compute_slices)
        return INVALID_ARGUMENT;
    for (unsigned row = 0; row < gpu->instance_count; row++)
        for (unsigned column = 0; column < gpu->instances[row].compute_count; column++)
            if (gpu->instances[row].computes[column].device == index) {
                *mig_device = handle_of(MIG_DEVICE_HANDLE, gpu, gpu->instances[row].id,
                                        gpu->instances[row].computes[column].id);
                return SUCCESS;
            }
    return NOT_FOUND;
}

int nvmlDeviceIsMigDeviceHandle(handle device, unsigned *is_mig)
{
    struct found found;
    int error = find_device(__func__, device, &found);
    *is_mig = error == SUCCESS && found.compute != NULL;
    return error;
}

int nvmlDeviceGetGpuInstanceId(handle mig_device, unsigned *id)
{
    struct found found;
    int error = find(__func__, mig_device, MIG_DEVICE_HANDLE, &found);
    if (error == SUCCESS)
        *id = found.instance->id;
    return error;
}

int nvmlDeviceGetComputeInstanceId(handle mig_device, unsigned *id)
{
    struct found found;
    int error = find(__func__, mig_device, MIG_DEVICE_HANDLE, &found);
    if (error == SUCCESS)
        *id = found.compute->id;
    return error;
}

int nvmlDeviceGetAttributes_v2(handle mig_device, struct device_attributes *attributes)
{
    struct found found;
    int error = find_device(__func__, mig_device, &found);
    if (error)
        return error;
    if (found.compute == NULL)
        return mig_is_on(found.gpu) ? INVALID_ARGUMENT : NOT_SUPPORTED;
    struct compute_profile_info compute = describe_compute(&found, found.compute->profile);
    *attributes = (struct device_attributes){
        .multiprocessors = compute.multiprocessors,
        .shared = compute.shared,
        .gpu_instance_slices = found.instance->profile->slices,
        .compute_instance_slices = compute.slices,
        .memory_mib = describe_profile(found.gpu, found.instance->profile).memory_mib};
    return SUCCESS;
}
