#include "model.h"

#include "description.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* What does not outlive a boot: instances, persistence mode, and since Hopper the MIG mode (NVIDIA MIG User
 * Guide). */
static void reboot(struct machine *machine)
{
    for (struct gpu *gpu = machine->gpus; gpu < machine->gpus + machine->gpu_count; gpu++) {
        gpu->instance_count = 0;
        gpu->persistence = OFF;
        gpu->ecc.current = gpu->ecc.pending;
        if (gpu->remapped[0] != MODEL_UNKNOWN)
            gpu->remapped[2] = 0;
        if (model_has_mig(gpu) && model_of(gpu) && model_of(gpu)->generation > AMPERE)
            gpu->mig.pending = OFF;
        gpu->mig.current = gpu->mig.pending;
    }
}

static bool read_boot_id(struct machine *machine)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool good = file && fscanf(file, "%95[^\n]", machine->boot) == 1;
    if (file)
        fclose(file);
    return good;
}

bool model_read(struct machine *machine)
{
    const char *description = getenv("FAKE_NVML_MACHINE"), *state = getenv("FAKE_NVML_STATE");
    *machine = (struct machine){.nvml = "13.580.95.05", .cuda = 13000, .confidential = MODEL_UNKNOWN};
    if (description == NULL || access(description, R_OK) != 0 ||
        !description_read(machine, description, false))
        return false;
    if (state && *state &&
        snprintf(machine->state, sizeof machine->state, "%s", state) >= (int)sizeof machine->state)
        return false;
    if (machine->boot[0] == '\0' && !read_boot_id(machine))
        return false;
    if (machine->state[0] == '\0')
        return true;
    char boot[NAME_SIZE];
    memcpy(boot, machine->boot, sizeof boot);
    bool good = description_read(machine, machine->state, true);
    if (good && strcmp(boot, machine->boot) != 0)
        reboot(machine);
    memcpy(machine->boot, boot, sizeof boot);
    return good;
}

static void write_instances(const struct gpu *gpu, FILE *file)
{
    for (unsigned row = 0; row < gpu->instance_count; row++) {
        const struct gpu_instance *instance = &gpu->instances[row];
        fprintf(file, "  instance %u %u\n", instance->profile->id, instance->start);
        for (unsigned column = 0; column < instance->compute_count; column++) {
            const struct compute_instance *compute = &instance->computes[column];
            fprintf(file, "  compute %u %u %u %u\n", compute->id, compute->profile, compute->start,
                    compute->device);
        }
    }
}

static void write_gpu(const struct gpu *gpu, FILE *file)
{
    const struct address *at = &gpu->address;
    fprintf(file, "gpu %04x:%02x:%02x.%x\n", at->domain, at->bus, at->device, at->function);
    if (model_has_mig(gpu))
        fprintf(file, "  mig %s\n", setting_word(gpu->mig));
    if (gpu->ecc.current != MODEL_UNKNOWN)
        fprintf(file, "  ecc %s\n", setting_word(gpu->ecc));
    if (gpu->remapped[0] != MODEL_UNKNOWN)
        fprintf(file, "  remapped %d %d %d %d\n", gpu->remapped[0], gpu->remapped[1], gpu->remapped[2],
                gpu->remapped[3]);
    fprintf(file, "  persistence %s\n", switched_words[gpu->persistence]);
    for (unsigned row = 0; row < gpu->fault_count; row++)
        if (gpu->faults[row].calls)
            fprintf(file, "  calls %s %u\n", gpu->faults[row].call, gpu->faults[row].calls);
    write_instances(gpu, file);
}

static FILE *open_unfinished(const struct machine *machine, char *path, size_t size)
{
    snprintf(path, size, "%s.%d", machine->state, (int)getpid());
    return fopen(path, "we");
}

bool model_write(const struct machine *machine)
{
    char unfinished[sizeof machine->state + 16];
    if (machine->state[0] == '\0')
        return true;
    FILE *file = open_unfinished(machine, unfinished, sizeof unfinished);
    if (file == NULL)
        return false;
    fprintf(file, "boot %s\n", machine->boot);
    for (unsigned index = 0; index < machine->gpu_count; index++)
        write_gpu(&machine->gpus[index], file);
    return fclose(file) == 0 && rename(unfinished, machine->state) == 0;
}

void model_write_half(const struct machine *machine)
{
    char unfinished[sizeof machine->state + 16];
    FILE *file = open_unfinished(machine, unfinished, sizeof unfinished);
    if (file == NULL)
        return;
    fprintf(file, "boot %s\ngpu 00", machine->boot);
    fclose(file);
}

static int open_beside(const struct machine *machine, const char *suffix, int operation)
{
    char path[sizeof machine->state + 16];
    if (machine->state[0] == '\0')
        return -1;
    snprintf(path, sizeof path, "%s%s", machine->state, suffix);
    int file = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file >= 0 && flock(file, operation) != 0) {
        close(file);
        return -1;
    }
    return file;
}

int model_lock(const struct machine *machine)
{
    return open_beside(machine, ".lock", LOCK_EX);
}

int model_attach(const struct machine *machine)
{
    return open_beside(machine, ".clients", LOCK_SH);
}

bool model_is_alone(const struct machine *machine)
{
    int clients = open_beside(machine, ".clients", LOCK_EX | LOCK_NB);
    model_unlock(clients);
    return machine->state[0] == '\0' || clients >= 0;
}

void model_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

const struct model *model_of(const struct gpu *gpu)
{
    return model_of_device(gpu->pci_device_id >> 16);
}

bool model_has_mig(const struct gpu *gpu)
{
    return gpu->mig.current != MODEL_UNKNOWN;
}

/* As seen on A100 and H100: 0 is the whole GPU, 1 its upper half, 2 its lower half, 3 to 6 quarters, 7 to 14
 * eighths. */
unsigned model_instance_id(const struct model *model, const struct profile *profile, unsigned start)
{
    unsigned parts = model->memory_slices / profile->size;
    return parts - 1 + (start / profile->size + parts / 2) % parts;
}
