#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool copy_text(char *into, const char *text)
{
    return (size_t)snprintf(into, MODEL_LARGEST_TEXT, "%s", text) < MODEL_LARGEST_TEXT;
}

static bool read_mig(struct gpu *gpu, const char *text)
{
    static const char *const names[] = {"unsupported", "disabled", "enabled"};
    for (int mode = MIG_UNSUPPORTED; mode <= MIG_ENABLED; mode++) {
        if (strcmp(text, names[mode]) == 0) {
            gpu->mig_current = gpu->mig_pending = (enum mig)mode;
            return true;
        }
    }
    if (strcmp(text, "enabling") == 0) { /* wanted, waiting for a reset */
        gpu->mig_current = MIG_DISABLED;
        gpu->mig_pending = MIG_ENABLED;
        return true;
    }
    return false;
}

static bool read_fabric(struct gpu *gpu, const char *text)
{
    if (strcmp(text, "not-started") == 0) {
        gpu->fabric = FABRIC_NOT_STARTED;
        return true;
    }
    if (strcmp(text, "in-progress") == 0) {
        gpu->fabric = FABRIC_IN_PROGRESS;
        return true;
    }
    gpu->fabric = FABRIC_COMPLETED;
    unsigned digits = 0;
    for (; *text && digits < 2 * MODEL_UUID_BYTES; text++) {
        unsigned nibble;
        if (*text == '-')
            continue;
        if (sscanf((char[]){*text, 0}, "%1x", &nibble) != 1)
            return false;
        gpu->cluster[digits / 2] = (unsigned char)(gpu->cluster[digits / 2] << 4 | nibble);
        digits++;
    }
    return digits == 2 * MODEL_UUID_BYTES && sscanf(text, ".%u", &gpu->clique) == 1;
}

static bool start_gpu(struct machine *machine, const char *text)
{
    if (machine->gpu_count == MODEL_MOST_GPUS)
        return false;
    struct gpu *gpu = &machine->gpus[machine->gpu_count++];
    *gpu = (struct gpu){.nvlinks = -1};
    return sscanf(text, "%x:%x:%x.%x", &gpu->domain, &gpu->bus, &gpu->device, &gpu->function) == 4;
}

static bool read_line(struct machine *machine, const char *key, const char *value)
{
    struct gpu *gpu = machine->gpu_count ? &machine->gpus[machine->gpu_count - 1] : NULL;
    if (strcmp(key, "driver") == 0)
        return copy_text(machine->driver, value);
    if (strcmp(key, "gpu") == 0)
        return start_gpu(machine, value);
    if (gpu == NULL)
        return false;
    if (strcmp(key, "device") == 0)
        return sscanf(value, "%x", &gpu->pci_device_id) == 1;
    if (strcmp(key, "name") == 0)
        return copy_text(gpu->name, value);
    if (strcmp(key, "uuid") == 0)
        return copy_text(gpu->uuid, value);
    if (strcmp(key, "memory_bytes") == 0)
        return sscanf(value, "%llu", &gpu->memory_bytes) == 1;
    if (strcmp(key, "mig") == 0)
        return read_mig(gpu, value);
    if (strcmp(key, "nvlinks") == 0)
        return sscanf(value, "%d", &gpu->nvlinks) == 1;
    if (strcmp(key, "fabric") == 0)
        return read_fabric(gpu, value);
    return false;
}

bool model_read(struct machine *machine)
{
    const char *path = getenv("FAKE_NVML_MACHINE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file == NULL)
        return false;
    *machine = (struct machine){0};
    char line[256], key[32], value[224];
    bool good = true;
    while (good && fgets(line, sizeof line, file)) {
        if (line[strspn(line, " \t\n")] == '\0' || line[0] == '#')
            continue;
        good = sscanf(line, " %31s %223[^\n]", key, value) == 2 && read_line(machine, key, value);
    }
    fclose(file);
    return good;
}
