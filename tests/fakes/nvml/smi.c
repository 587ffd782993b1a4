/* nvidia-smi, as far as numaforge speaks with it, and as far as what it tells an admin to type by hand:

       nvidia-smi -L | -q -x | -r [-i GPUS] | -pm 0|1 [-i GPUS] | -mig 0|1 [-i GPUS]
       nvidia-smi mig [-i GPUS] -lgi | -cgi ID[:START],... [-C] | -dci | -dgi

   GPUS are indexes, PCI addresses or UUIDs with commas between them. It exits as nvidia-smi's manual says: with NVML's
   code where that is one of its own, else with 255. */
#include "mig.h"

#include <stdlib.h>
#include <string.h>

/* What is used of the library. */
int nvmlDeviceSetPersistenceMode(handle device, unsigned mode);
int nvmlDeviceSetMigMode(handle device, unsigned mode, unsigned *activation);
int nvmlDeviceCreateGpuInstance(handle device, unsigned id, handle *created);
int nvmlDeviceCreateGpuInstanceWithPlacement(handle device, unsigned id, const struct placement *where, handle *created);
int nvmlGpuInstanceCreateComputeInstance(handle what, unsigned id, handle *created);
int nvmlGpuInstanceGetComputeInstanceProfileInfo(handle what, unsigned kind, unsigned engine, struct compute_profile_info *info);
int nvmlGpuInstanceGetInfo(handle what, struct gpu_instance_info *info);
int nvmlGpuInstanceDestroy(handle what);
int nvmlComputeInstanceDestroy(handle what);
const char *nvmlErrorString(int code);

static bool chosen[MODEL_MOST_GPUS];

static int exit_code(int error)
{
    switch (error) {
    case SUCCESS:
    case INVALID_ARGUMENT:
    case NOT_SUPPORTED:
    case NO_PERMISSION:
    case NOT_FOUND:
    case DRIVER_NOT_LOADED:
    case FUNCTION_NOT_FOUND:
    case GPU_IS_LOST: return error;
    default: return 255;
    }
}

static handle handle_at(unsigned index)
{
    return handle_of(GPU_HANDLE, &machine.gpus[index], 0, 0);
}

static void name_bus(unsigned index, char bus_id[32])
{
    const struct address *at = &machine.gpus[index].address;
    snprintf(bus_id, 32, "%08X:%02X:%02X.%X", at->domain, at->bus, at->device, at->function);
}

/* Which GPU */

static bool is_named(unsigned index, const char *name)
{
    struct address at;
    char number[16], rest;
    snprintf(number, sizeof number, "%u", index);
    if (strcmp(number, name) == 0 || strcmp(machine.gpus[index].uuid, name) == 0)
        return true;
    return sscanf(name, "%x:%x:%x.%x%c", &at.domain, &at.bus, &at.device, &at.function, &rest) == 4 &&
           memcmp(&at, &machine.gpus[index].address, sizeof at) == 0;
}

static bool choose(char *names)
{
    memset(chosen, names == NULL, sizeof chosen);
    for (char *name = names ? strtok(names, ",") : NULL; name; name = strtok(NULL, ",")) {
        bool found = false;
        for (unsigned index = 0; index < machine.gpu_count; index++)
            if (is_named(index, name))
                found = chosen[index] = true;
        if (!found) {
            printf("No devices were found\n");
            return false;
        }
    }
    return true;
}

#define FOR_CHOSEN(index)                                      \
    for (unsigned index = 0; index < machine.gpu_count; index++) \
        if (chosen[index])

/* -L */

static int list(void)
{
    FOR_CHOSEN(index)
    {
        struct found device = {.gpu = &machine.gpus[index]};
        char name[NAME_SIZE], uuid[NAME_SIZE];
        if (device.gpu->lost != PRESENT) {
            name_bus(index, name);
            printf("Unable to determine the device handle for gpu %s: GPU is lost.  Reboot the system to recover this GPU\n", name);
            continue;
        }
        printf("GPU %u: %s (UUID: %s)\n", index, device.gpu->name, device.gpu->uuid);
        for (unsigned row = 0; row < device.gpu->instance_count; row++) {
            device.instance = &device.gpu->instances[row];
            for (unsigned column = 0; column < device.instance->compute_count; column++) {
                device.compute = &device.instance->computes[column];
                mig_device_name(&device, name);
                mig_device_uuid(&device, uuid);
                printf("  %-15s Device %2u: (UUID: %s)\n", name, device.compute->device, uuid);
            }
        }
    }
    return 0;
}

/* -q -x */

static int depth;

static void open_tag(const char *tag)
{
    printf("%*s<%s>\n", depth++, "", tag);
}

static void close_tag(const char *tag)
{
    printf("%*s</%s>\n", --depth, "", tag);
}

static void value(const char *tag, const char *text)
{
    printf("%*s<%s>%s</%s>\n", depth, "", tag, *text ? text : "N/A", tag);
}

static void number(const char *tag, long long amount, const char *unit)
{
    char text[64] = "";
    if (amount != MODEL_UNKNOWN)
        snprintf(text, sizeof text, "%lld%s", amount, unit);
    value(tag, text);
}

static void switched(const char *tag, int state)
{
    value(tag, state == MODEL_UNKNOWN ? "" : state == ON ? "Enabled" : "Disabled");
}

static void print_memory(unsigned long long total, unsigned long long used)
{
    open_tag("fb_memory_usage");
    number("total", (long long)(total >> 20), " MiB");
    number("reserved", 0, " MiB");
    number("used", (long long)(used >> 20), " MiB");
    number("free", (long long)((total - used) >> 20), " MiB");
    close_tag("fb_memory_usage");
}

static void print_mig_devices(struct gpu *gpu)
{
    struct found device = {.gpu = gpu};
    open_tag("mig_devices");
    for (unsigned row = 0; row < gpu->instance_count; row++) {
        device.instance = &gpu->instances[row];
        for (unsigned column = 0; column < device.instance->compute_count; column++) {
            device.compute = &device.instance->computes[column];
            open_tag("mig_device");
            number("index", device.compute->device, "");
            number("gpu_instance_id", device.instance->id, "");
            number("compute_instance_id", device.compute->id, "");
            print_memory(mig_device_memory_bytes(&device), 0);
            close_tag("mig_device");
        }
    }
    close_tag("mig_devices");
}

static void print_mig(struct gpu *gpu)
{
    open_tag("mig_mode");
    switched("current_mig", gpu->mig.current);
    switched("pending_mig", gpu->mig.pending);
    close_tag("mig_mode");
    if (gpu->mig.current == ON)
        print_mig_devices(gpu);
    else
        value("mig_devices", "None");
}

static void print_pci(const struct gpu *gpu, const char *bus_id)
{
    char id[16];
    open_tag("pci");
    snprintf(id, sizeof id, "%08X", gpu->pci_device_id);
    value("pci_device_id", id);
    value("pci_bus_id", bus_id);
    snprintf(id, sizeof id, "%08X", gpu->pci_subsystem_id);
    value("pci_sub_system_id", id);
    open_tag("pci_gpu_link_info");
    open_tag("pcie_gen");
    number("max_link_gen", gpu->pcie[2], "");
    number("current_link_gen", gpu->pcie[0], "");
    close_tag("pcie_gen");
    open_tag("link_widths");
    number("max_link_width", gpu->pcie[3], "x");
    number("current_link_width", gpu->pcie[1], "x");
    close_tag("link_widths");
    close_tag("pci_gpu_link_info");
    close_tag("pci");
}

static void print_errors(const struct gpu *gpu)
{
    static const char *const words[] = {"No", "Yes"};
    open_tag("ecc_mode");
    switched("current_ecc", gpu->ecc.current);
    switched("pending_ecc", gpu->ecc.pending);
    close_tag("ecc_mode");
    if (gpu->ecc.current == ON) {
        open_tag("ecc_errors");
        open_tag("volatile");
        number("dram_correctable", (long long)gpu->ecc_errors[0], "");
        number("dram_uncorrectable", (long long)gpu->ecc_errors[1], "");
        close_tag("volatile");
        close_tag("ecc_errors");
    }
    if (gpu->remapped[0] == MODEL_UNKNOWN) {
        value("remapped_rows", "");
        return;
    }
    open_tag("remapped_rows");
    number("remapped_row_corr", gpu->remapped[0], "");
    number("remapped_row_unc", gpu->remapped[1], "");
    value("remapped_row_pending", words[gpu->remapped[2] != 0]);
    value("remapped_row_failure", words[gpu->remapped[3] != 0]);
    close_tag("remapped_rows");
}

static void print_fabric(const struct gpu *gpu)
{
    static const char *const states[] = {"N/A", "Not Started", "In Progress", "Completed"};
    bool completed = gpu->fabric == FABRIC_COMPLETED;
    char cluster[40] = "";
    const unsigned char *byte = gpu->cluster;
    for (size_t place = 0; completed && byte < gpu->cluster + sizeof gpu->cluster; byte++) {
        bool dash = place == 8 || place == 13 || place == 18 || place == 23;
        place += (size_t)snprintf(cluster + place, sizeof cluster - place, "%s%02x", dash ? "-" : "", *byte);
    }
    open_tag("fabric");
    value("state", states[gpu->fabric]);
    value("status", completed ? nvmlErrorString((int)gpu->fabric_status) : "");
    number("cliqueId", completed ? (long long)gpu->clique : MODEL_UNKNOWN, "");
    value("clusterUuid", cluster);
    close_tag("fabric");
}

static void print_processes(const struct gpu *gpu)
{
    static const char *const kinds[] = {"C", "G", "M+C"};
    open_tag("processes");
    for (unsigned row = 0; row < gpu->process_count; row++) {
        const struct process *process = &gpu->processes[row];
        bool everywhere = process->gpu_instance == MODEL_EVERYWHERE;
        open_tag("process_info");
        number("gpu_instance_id", everywhere ? MODEL_UNKNOWN : (long long)process->gpu_instance, "");
        number("compute_instance_id", everywhere ? MODEL_UNKNOWN : (long long)process->compute_instance, "");
        number("pid", process->pid, "");
        value("type", kinds[process->kind]);
        number("used_memory", (long long)(process->memory >> 20), " MiB");
        close_tag("process_info");
    }
    close_tag("processes");
}

static void print_gpu(unsigned index)
{
    static const char *const virtualizations[] = {"None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA"};
    static const char *const addressings[] = {"None", "HMM", "ATS"};
    struct gpu *gpu = &machine.gpus[index];
    unsigned long long used = 0;
    char bus_id[32];
    name_bus(index, bus_id);
    printf("%*s<gpu id=\"%s\">\n", depth++, "", bus_id);
    value("product_name", gpu->name);
    switched("persistence_mode", gpu->persistence);
    value("addressing_mode", gpu->addressing == MODEL_UNKNOWN ? "" : addressings[gpu->addressing]);
    print_mig(gpu);
    value("serial", gpu->serial);
    value("uuid", gpu->uuid);
    number("minor_number", gpu->minor, "");
    value("vbios_version", gpu->vbios);
    switched("c2c_mode", gpu->c2c);
    open_tag("gpu_virtualization_mode");
    value("virtualization_mode", virtualizations[gpu->virtualization]);
    close_tag("gpu_virtualization_mode");
    value("gsp_firmware_version", gpu->gsp);
    print_pci(gpu, bus_id);
    for (unsigned row = 0; row < gpu->process_count; row++)
        used += gpu->processes[row].memory;
    print_memory(gpu->memory_bytes, used);
    print_errors(gpu);
    print_fabric(gpu);
    print_processes(gpu);
    close_tag("gpu");
}

static int query(void)
{
    FOR_CHOSEN(index)
    if (machine.gpus[index].lost != PRESENT) {
        char bus_id[32];
        name_bus(index, bus_id);
        printf("Unable to determine the device handle for GPU%u: %s: GPU is lost.  Reboot the system to recover this GPU\n", index, bus_id);
        return GPU_IS_LOST;
    }
    printf("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n");
    char cuda[32];
    snprintf(cuda, sizeof cuda, "%d.%d", machine.cuda / 1000, machine.cuda % 1000 / 10);
    open_tag("nvidia_smi_log");
    value("driver_version", machine.driver);
    value("cuda_version", cuda);
    number("attached_gpus", machine.gpu_count, "");
    FOR_CHOSEN(index)
    print_gpu(index);
    close_tag("nvidia_smi_log");
    return 0;
}

/* -r */

static bool all_linked_are_chosen(void)
{
    for (unsigned index = 0; index < machine.gpu_count; index++)
        if (machine.gpus[index].reset == RESET_TOGETHER && !chosen[index])
            return false;
    return true;
}

static int why_no_reset(unsigned index)
{
    const struct gpu *gpu = &machine.gpus[index];
    if (gpu->lost != PRESENT)
        return GPU_IS_LOST;
    if (gpu->reset == RESET_TOGETHER && !all_linked_are_chosen())
        return NOT_SUPPORTED;
    if (!model_is_alone(&machine) || gpu->persistence == ON)
        return IN_USE;
    return can_reset(gpu);
}

/* All of the chosen GPUs, or none; with the name of what is injected for it, `reset`. */
static int reset(void)
{
    char bus_id[32];
    int worst = SUCCESS;
    session_end(); /* this process is no client that stands in the way */
    FOR_CHOSEN(index)
    {
        int error = why_no_reset(index);
        if (error == SUCCESS)
            continue;
        name_bus(index, bus_id);
        printf("%s  GPU %s: %s\n", worst ? "" : "The following GPUs could not be reset:\n", bus_id, nvmlErrorString(error));
        worst = error;
    }
    session_begin();
    FOR_CHOSEN(index)
    if (worst == SUCCESS) {
        struct found found;
        int error = change_begin("reset", handle_at(index), GPU_HANDLE, &found);
        if (error == SUCCESS)
            error = change_end(reset_gpu(found.gpu));
        name_bus(index, bus_id);
        if (error)
            printf("GPU %s: %s\n", bus_id, nvmlErrorString(worst = error));
        else
            printf("GPU %s was successfully reset.\n", bus_id);
    }
    if (worst == IN_USE)
        printf("\nA device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA application,"
               " or a monitoring application such as another instance of nvidia-smi).\n");
    return exit_code(worst);
}

/* -pm, -mig */

static int set_persistence(unsigned mode)
{
    int error = SUCCESS;
    FOR_CHOSEN(index)
    if (error == SUCCESS)
        error = nvmlDeviceSetPersistenceMode(handle_at(index), mode);
    printf("%s\n", error ? nvmlErrorString(error) : "All done.");
    return exit_code(error);
}

static int set_mig(unsigned mode)
{
    static const char *const words[][2] = {{"Disabled", "disable"}, {"Enabled", "enable"}};
    FOR_CHOSEN(index)
    {
        char bus_id[32];
        unsigned activation = SUCCESS;
        int error = nvmlDeviceSetMigMode(handle_at(index), mode, &activation);
        name_bus(index, bus_id);
        if (error) {
            printf("Unable to %s MIG Mode for GPU %s: %s\n", words[mode][1], bus_id, nvmlErrorString(error));
            return exit_code(error);
        }
        if (activation)
            printf("Warning: MIG mode is in pending %s state for GPU %s:%s\n", words[mode][1], bus_id,
                   nvmlErrorString((int)activation));
        else
            printf("%s MIG Mode for GPU %s\n", words[mode][0], bus_id);
    }
    printf("All done.\n");
    return 0;
}

/* mig */

static int list_instances(void)
{
    const char *line = "+-------------------------------------------------------+";
    bool any = false, enabled = false;
    FOR_CHOSEN(index)
    for (unsigned start = 0; start < 12; start++) {
        struct gpu *gpu = &machine.gpus[index];
        enabled = enabled || gpu->mig.current == ON;
        for (unsigned row = 0; row < gpu->instance_count; row++) {
            const struct gpu_instance *instance = &gpu->instances[row];
            char name[NAME_SIZE];
            if (instance->start != start)
                continue;
            if (!any)
                printf("%s\n| GPU instances:                                        |\n"
                       "| GPU   Name             Profile  Instance   Placement  |\n"
                       "|                          ID       ID       Start:Size |\n"
                       "|=======================================================|\n", line);
            any = true;
            gpu_instance_name(gpu, instance->profile, name);
            printf("| %3u  %-18s %3u      %3u         %2u:%-2u    |\n%s\n", index, name, instance->profile->id, instance->id,
                   start, instance->profile->size, line);
        }
    }
    if (!any)
        printf("%s\n", enabled ? "No GPU instances found: Not Found" : "No MIG-enabled devices found.");
    return any ? 0 : NOT_FOUND;
}

static int create_computes(unsigned index, handle instance)
{
    struct gpu_instance_info info;
    struct compute_profile_info profile;
    handle created;
    int error = nvmlGpuInstanceGetInfo(instance, &info);
    unsigned slices = error ? 0 : profile_by_id(model_of(&machine.gpus[index]), info.profile)->slices;
    for (unsigned kind = 0; error == SUCCESS; kind++) {
        error = nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, kind, 0, &profile);
        if (error == SUCCESS && profile.slices == slices)
            return nvmlGpuInstanceCreateComputeInstance(instance, kind, &created);
        if (error == NOT_SUPPORTED)
            error = SUCCESS;
    }
    return error;
}

static int create_instance(unsigned index, const char *wanted, bool computes)
{
    struct placement where;
    unsigned id;
    handle instance;
    int error = INVALID_ARGUMENT, read = sscanf(wanted, "%u:%u", &id, &where.start);
    if (read == 2) {
        const struct profile *profile = profile_by_id(model_of(&machine.gpus[index]), id);
        where.size = profile ? profile->size : 0;
        error = nvmlDeviceCreateGpuInstanceWithPlacement(handle_at(index), id, &where, &instance);
    } else if (read == 1) {
        error = nvmlDeviceCreateGpuInstance(handle_at(index), id, &instance);
    }
    if (error == SUCCESS)
        printf("Successfully created GPU instance on GPU %2u using profile %s\n", index, wanted);
    else
        printf("Unable to create a GPU instance on GPU %2u using profile %s: %s\n", index, wanted, nvmlErrorString(error));
    return error == SUCCESS && computes ? create_computes(index, instance) : error;
}

static int create_instances(const char *list, bool computes)
{
    int error = SUCCESS;
    FOR_CHOSEN(index)
    {
        char wanted[256];
        snprintf(wanted, sizeof wanted, "%s", list);
        for (char *one = strtok(wanted, ","); one && error == SUCCESS; one = strtok(NULL, ","))
            error = create_instance(index, one, computes);
    }
    return exit_code(error);
}

static int destroy(bool computes)
{
    int error = SUCCESS;
    FOR_CHOSEN(index)
    {
        const struct gpu gpu = machine.gpus[index]; /* as it was before the first one is destroyed */
        for (unsigned row = 0; row < gpu.instance_count && error == SUCCESS; row++) {
            unsigned id = gpu.instances[row].id;
            if (!computes)
                error = nvmlGpuInstanceDestroy(handle_of(GPU_INSTANCE_HANDLE, &machine.gpus[index], id, 0));
            for (unsigned column = 0; computes && column < gpu.instances[row].compute_count && error == SUCCESS; column++)
                error = nvmlComputeInstanceDestroy(handle_of(COMPUTE_INSTANCE_HANDLE, &machine.gpus[index], id,
                                                             gpu.instances[row].computes[column].id));
        }
    }
    printf("%s\n", error ? nvmlErrorString(error) : "All done.");
    return exit_code(error);
}

static int unknown(const char *word)
{
    printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n%s\n", word);
    return INVALID_ARGUMENT;
}

int main(int count, char **words)
{
    char *gpus = NULL, *profiles = NULL, *mode = NULL;
    const char *verb = "";
    bool computes = false, xml = false, mig = count > 1 && strcmp(words[1], "mig") == 0;
    for (int place = mig ? 2 : 1; place < count; place++) {
        char **argument = strcmp(words[place], "-i") == 0 ? &gpus : NULL;
        if (strcmp(words[place], "-x") == 0)
            xml = true;
        else if (strcmp(words[place], "-C") == 0)
            computes = true;
        else if (argument == NULL)
            verb = words[place];
        if (strcmp(words[place], "-cgi") == 0)
            argument = &profiles;
        if (strcmp(words[place], "-pm") == 0 || strcmp(words[place], "-mig") == 0)
            argument = &mode;
        if (argument && (*argument = ++place < count ? words[place] : NULL) == NULL)
            return unknown(words[place - 1]);
    }
    int error = session_begin();
    if (error) {
        printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
               "driver is installed and running.\n");
        return exit_code(error);
    }
    if (!choose(gpus))
        return NOT_FOUND;
    unsigned on = mode && strcmp(mode, "1") == 0;
    if (mode && !on && strcmp(mode, "0") != 0)
        return unknown(mode);
    if (mig && strcmp(verb, "-lgi") == 0)
        return list_instances();
    if (mig && profiles)
        return create_instances(profiles, computes);
    if (mig && (strcmp(verb, "-dci") == 0 || strcmp(verb, "-dgi") == 0))
        return destroy(strcmp(verb, "-dci") == 0);
    if (!mig && strcmp(verb, "-L") == 0)
        return list();
    if (!mig && strcmp(verb, "-q") == 0 && xml)
        return query();
    if (!mig && (strcmp(verb, "-r") == 0 || strcmp(verb, "--gpu-reset") == 0))
        return reset();
    if (!mig && mode)
        return strcmp(verb, "-pm") == 0 ? set_persistence(on) : set_mig(on);
    return unknown(verb);
}
