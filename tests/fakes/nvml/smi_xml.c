/* `nvidia-smi -q -x`: the elements that numaforge reads, as version 12 of its DTD has them. */
#include "smi.h"

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
    value("state", gpu->fabric == MODEL_UNKNOWN ? states[0] : states[gpu->fabric]);
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
    smi_name_bus(index, bus_id);
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

int smi_query(const bool *chosen)
{
    for (unsigned index = 0; index < machine.gpu_count; index++)
        if (chosen[index] && machine.gpus[index].lost != PRESENT)
            return smi_lost(index);
    char cuda[32];
    snprintf(cuda, sizeof cuda, "%d.%d", machine.cuda / 1000, machine.cuda % 1000 / 10);
    printf("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n");
    open_tag("nvidia_smi_log");
    value("driver_version", machine.driver);
    value("cuda_version", cuda);
    number("attached_gpus", machine.gpu_count, "");
    for (unsigned index = 0; index < machine.gpu_count; index++)
        if (chosen[index])
            print_gpu(index);
    close_tag("nvidia_smi_log");
    return SUCCESS;
}
