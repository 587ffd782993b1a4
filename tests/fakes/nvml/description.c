/* The words of a description and of a state: one table of keys for both. */
#include "description.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool copy_text(char *into, size_t size, const char *text)
{
    return (size_t)snprintf(into, size, "%s", text) < size;
}

static bool read_number(const char *text, int base, unsigned long long most, unsigned long long *number)
{
    char *end;
    *number = strtoull(text, &end, base);
    return end != text && *end == '\0' && *text != '-' && *number <= most;
}

/* The words end with NULL. */
static bool read_choice(const char *text, const char *const *words, int *chosen)
{
    for (*chosen = 0; words[*chosen]; ++*chosen)
        if (strcmp(text, words[*chosen]) == 0)
            return true;
    return false;
}

static const char *const setting_words[] = {"disabled", "enabled", "enabling", "disabling", NULL};

static bool read_setting(struct setting *setting, const char *text)
{
    int word;
    if (!read_choice(text, setting_words, &word))
        return false;
    *setting = (struct setting){.current = word == 1 || word == 3, .pending = word == 1 || word == 2};
    return true;
}

const char *setting_word(struct setting setting)
{
    if (setting.current == setting.pending)
        return setting_words[setting.current];
    return setting_words[setting.pending ? 2 : 3];
}

static bool read_address(const char *text, struct address *address)
{
    char rest;
    return sscanf(text, "%x:%x:%x.%x%c", &address->domain, &address->bus, &address->device,
                  &address->function, &rest) == 4;
}

static bool read_fabric(struct gpu *gpu, const char *text)
{
    static const char *const names[] = {"none", "not-started", "in-progress", NULL};
    if (read_choice(text, names, &gpu->fabric))
        return true;
    gpu->fabric = FABRIC_COMPLETED;
    unsigned digits = 0;
    for (; *text && digits < 2 * sizeof gpu->cluster; text++) {
        unsigned nibble;
        if (*text == '-')
            continue;
        if (sscanf((char[]){*text, 0}, "%1x", &nibble) != 1)
            return false;
        gpu->cluster[digits / 2] = (unsigned char)(gpu->cluster[digits / 2] << 4 | nibble);
        digits++;
    }
    char rest;
    return digits == 2 * sizeof gpu->cluster && sscanf(text, ".%u%c", &gpu->clique, &rest) == 1;
}

/* `18`, or `12 of 12`: active links, of how many. */
static bool read_nvlinks(struct gpu *gpu, const char *text)
{
    unsigned active, all = MODEL_MOST_LINKS;
    char rest;
    int found = sscanf(text, "%u of %u%c", &active, &all, &rest);
    if ((found != 1 && found != 2) || active > all || all > MODEL_MOST_LINKS)
        return false;
    gpu->nvlinks = (int)all;
    for (unsigned link = 0; link < MODEL_MOST_LINKS; link++)
        gpu->links[link] = (struct link){.active = link < active, .remote = REMOTE_UNKNOWN};
    return true;
}

/* `0-5 gpu ADDRESS`, `6 switch hidden`, `7 down` */
static bool read_nvlink(struct gpu *gpu, const char *text)
{
    char range[16], kind[16], remote[32] = "";
    unsigned first, last;
    if (sscanf(text, "%15s %15s %31s", range, kind, remote) < 2)
        return false;
    int bounds = sscanf(range, "%u-%u", &first, &last);
    if (bounds == 1)
        last = first;
    if (bounds < 1 || (int)last >= gpu->nvlinks)
        return false;
    struct link link = {.active = strcmp(kind, "down") != 0, .remote = REMOTE_UNKNOWN};
    if (link.active) {
        link.remote = strcmp(kind, "gpu") == 0 ? REMOTE_GPU : REMOTE_SWITCH;
        link.hidden = strcmp(remote, "hidden") == 0;
        if ((link.remote == REMOTE_SWITCH && strcmp(kind, "switch") != 0) ||
            (!link.hidden && !read_address(remote, &link.address)))
            return false;
    }
    while (first <= last)
        gpu->links[first++] = link;
    return true;
}

/* `4711 compute 1073741824 2 0`: pid, kind, bytes, GPU instance, compute instance */
static bool read_process(struct gpu *gpu, const char *text)
{
    static const char *const kinds[] = {"compute", "graphics", "mps", NULL};
    if (gpu->process_count == MODEL_MOST_PROCESSES)
        return false;
    struct process process = {.gpu_instance = MODEL_EVERYWHERE, .compute_instance = MODEL_EVERYWHERE};
    char word[16];
    int kind;
    if (sscanf(text, "%u %15s %llu %u %u", &process.pid, word, &process.memory, &process.gpu_instance,
               &process.compute_instance) < 3 ||
        !read_choice(word, kinds, &kind))
        return false;
    process.kind = (enum process_kind)kind;
    gpu->processes[gpu->process_count++] = process;
    return true;
}

static bool read_error(const char *text, int *error)
{
    static const struct {
        const char *name;
        int code;
    } errors[] = {
#define X(name, code, text) {"NVML_ERROR_" #name, code},
        ERRORS(X)
#undef X
            {"killed-before", MODEL_KILLED_BEFORE},
        {"killed-after", MODEL_KILLED_AFTER},
    };
    for (size_t row = 0; row < sizeof errors / sizeof *errors; row++)
        if (strcmp(text, errors[row].name) == 0) {
            *error = errors[row].code;
            return true;
        }
    return false;
}

/* `nvmlDeviceCreateGpuInstance 2 NVML_ERROR_IN_USE` */
static bool read_fault(struct gpu *gpu, const char *text)
{
    char nth[16], error[NAME_SIZE];
    if (gpu->fault_count == MODEL_MOST_FAULTS)
        return false;
    struct fault *fault = &gpu->faults[gpu->fault_count++];
    unsigned long long number = 0;
    if (sscanf(text, "%95s %15s %95s", fault->call, nth, error) != 3 || !read_error(error, &fault->error))
        return false;
    if (strcmp(nth, "every") != 0 && (!read_number(nth, 10, UINT_MAX, &number) || number == 0))
        return false;
    fault->nth = (unsigned)number;
    return true;
}

static bool read_calls(struct gpu *gpu, const char *text)
{
    char call[NAME_SIZE];
    unsigned calls;
    if (sscanf(text, "%95s %u", call, &calls) != 2)
        return false;
    for (unsigned row = 0; row < gpu->fault_count; row++)
        if (strcmp(gpu->faults[row].call, call) == 0)
            gpu->faults[row].calls = calls;
    return true;
}

/* `9 4`: profile id, first memory slice */
static bool read_instance(struct gpu *gpu, const char *text)
{
    unsigned id, start;
    if (gpu->instance_count == MODEL_MOST_INSTANCES || sscanf(text, "%u %u", &id, &start) != 2)
        return false;
    const struct profile *profile = profile_by_id(model_of(gpu), id);
    if (profile == NULL)
        return false;
    gpu->instances[gpu->instance_count++] = (struct gpu_instance){
        .id = model_instance_id(model_of(gpu), profile, start), .profile = profile, .start = start};
    return true;
}

/* `0 2 0 0`: id, profile, first compute slice, index of the MIG device; in the instance before it */
static bool read_compute(struct gpu *gpu, const char *text)
{
    if (gpu->instance_count == 0)
        return false;
    struct gpu_instance *instance = &gpu->instances[gpu->instance_count - 1];
    if (instance->compute_count == MODEL_MOST_INSTANCES)
        return false;
    struct compute_instance *compute = &instance->computes[instance->compute_count++];
    return sscanf(text, "%u %u %u %u", &compute->id, &compute->profile, &compute->start, &compute->device) ==
           4;
}

static bool read_mig(struct gpu *gpu, const char *text)
{
    return strcmp(text, "unsupported") == 0 || read_setting(&gpu->mig, text);
}

static bool read_ecc(struct gpu *gpu, const char *text)
{
    return read_setting(&gpu->ecc, text);
}

static bool read_capability(struct gpu *gpu, const char *text)
{
    int major, minor;
    char rest;
    bool good = sscanf(text, "%d.%d%c", &major, &minor, &rest) == 2;
    gpu->capability = major * 10 + minor;
    return good;
}

static bool read_ecc_errors(struct gpu *gpu, const char *text)
{
    return sscanf(text, "%llu %llu", &gpu->ecc_errors[0], &gpu->ecc_errors[1]) == 2;
}

static bool read_four(int *into, const char *text)
{
    return sscanf(text, "%d %d %d %d", &into[0], &into[1], &into[2], &into[3]) == 4;
}

static bool read_remapped(struct gpu *gpu, const char *text)
{
    return read_four(gpu->remapped, text);
}

static bool read_pcie(struct gpu *gpu, const char *text)
{
    return read_four(gpu->pcie, text);
}

static bool read_held_while(struct gpu *gpu, const char *path)
{
    gpu->held = gpu->held || access(path, F_OK) == 0;
    return true;
}

static bool read_device_file(struct gpu *gpu, const char *path)
{
    return copy_text(gpu->device_file, sizeof gpu->device_file, path);
}

const char *const switched_words[] = {"disabled", "enabled", NULL};
static const char *const virtualizations[] = {"none", "passthrough", "vgpu", "host-vgpu", "host-vsga", NULL};
static const char *const addressings[] = {"none", "hmm", "ats", NULL};
static const char *const resets[] = {"from-outside", "by-itself", "together", NULL};
static const char *const losses[] = {"no", "yes", "off-the-bus", NULL};

static const struct key {
    const char *name;
    bool (*read)(struct gpu *gpu, const char *text);
    enum { READER, TEXT, HEX, NUMBER, BYTES, CHOICE } kind;
    size_t offset;
    const char *const *words;
    bool changes; /* kept in the state */
} keys[] = {
#define AT(field) offsetof(struct gpu, field)
    {"device", NULL, HEX, AT(pci_device_id), NULL, false},
    {"subsystem", NULL, HEX, AT(pci_subsystem_id), NULL, false},
    {"name", NULL, TEXT, AT(name), NULL, false},
    {"uuid", NULL, TEXT, AT(uuid), NULL, false},
    {"serial", NULL, TEXT, AT(serial), NULL, false},
    {"vbios", NULL, TEXT, AT(vbios), NULL, false},
    {"gsp", NULL, TEXT, AT(gsp), NULL, false},
    {"memory_bytes", NULL, BYTES, AT(memory_bytes), NULL, false},
    {"minor", NULL, NUMBER, AT(minor), NULL, false},
    {"architecture", NULL, NUMBER, AT(architecture), NULL, false},
    {"compute_capability", read_capability, READER, 0, NULL, false},
    {"virtualization", NULL, CHOICE, AT(virtualization), virtualizations, false},
    {"addressing", NULL, CHOICE, AT(addressing), addressings, false},
    {"c2c", NULL, CHOICE, AT(c2c), switched_words, false},
    {"numa_node", NULL, NUMBER, AT(numa_node), NULL, false},
    {"recovery", NULL, NUMBER, AT(recovery), NULL, false},
    {"persistence", NULL, CHOICE, AT(persistence), switched_words, true},
    {"mig", read_mig, READER, 0, NULL, true},
    {"ecc", read_ecc, READER, 0, NULL, true},
    {"ecc_errors", read_ecc_errors, READER, 0, NULL, false},
    {"remapped", read_remapped, READER, 0, NULL, true},
    {"pcie", read_pcie, READER, 0, NULL, false},
    {"nvlinks", read_nvlinks, READER, 0, NULL, false},
    {"nvlink", read_nvlink, READER, 0, NULL, false},
    {"fabric", read_fabric, READER, 0, NULL, false},
    {"fabric_status", NULL, NUMBER, AT(fabric_status), NULL, false},
    {"fabric_health", NULL, HEX, AT(fabric_health), NULL, false},
    {"lost", NULL, CHOICE, AT(lost), losses, false},
    {"reset", NULL, CHOICE, AT(reset), resets, false},
    {"held_while", read_held_while, READER, 0, NULL, false},
    {"device_file", read_device_file, READER, 0, NULL, false},
    {"process", read_process, READER, 0, NULL, false},
    {"fail", read_fault, READER, 0, NULL, false},
    {"calls", read_calls, READER, 0, NULL, true},
    {"instance", read_instance, READER, 0, NULL, true},
    {"compute", read_compute, READER, 0, NULL, true},
};

static bool read_value(struct gpu *gpu, const struct key *key, const char *value)
{
    void *field = (char *)gpu + key->offset;
    unsigned long long number;
    switch (key->kind) {
    case READER: return key->read(gpu, value);
    case TEXT: return copy_text(field, NAME_SIZE, value);
    case CHOICE: return read_choice(value, key->words, field);
    case BYTES: return read_number(value, 10, ULLONG_MAX, field);
    case HEX:
    case NUMBER:
        if (!read_number(value, key->kind == HEX ? 16 : 10, UINT_MAX, &number))
            return false;
        *(unsigned *)field = (unsigned)number;
        return true;
    }
    return false;
}

static struct gpu *start_gpu(struct machine *machine, struct address address)
{
    if (machine->gpu_count == MODEL_MOST_GPUS)
        return NULL;
    struct gpu *gpu = &machine->gpus[machine->gpu_count++];
    *gpu = (struct gpu){
        .address = address,
        .minor = (int)machine->gpu_count - 1,
        .architecture = MODEL_UNKNOWN,
        .capability = MODEL_UNKNOWN,
        .virtualization = VIRTUALIZATION_NONE,
        .addressing = MODEL_UNKNOWN,
        .c2c = MODEL_UNKNOWN,
        .numa_node = MODEL_UNKNOWN,
        .recovery = MODEL_UNKNOWN,
        .fabric = MODEL_UNKNOWN,
        .persistence = OFF,
        .mig = {MODEL_UNKNOWN, MODEL_UNKNOWN},
        .ecc = {MODEL_UNKNOWN, MODEL_UNKNOWN},
        .remapped = {MODEL_UNKNOWN},
        .pcie = {MODEL_UNKNOWN, MODEL_UNKNOWN, MODEL_UNKNOWN, MODEL_UNKNOWN},
        .nvlinks = MODEL_UNKNOWN,
    };
    return gpu;
}

/* A state may hold a GPU that the description no longer has: it is passed over, and forgotten. */
static struct gpu vanished;

static struct gpu *select_gpu(struct machine *machine, const char *value, bool state)
{
    struct address address;
    if (!read_address(value, &address))
        return NULL;
    if (!state)
        return start_gpu(machine, address);
    for (unsigned index = 0; index < machine->gpu_count; index++)
        if (memcmp(&machine->gpus[index].address, &address, sizeof address) == 0) {
            machine->gpus[index].instance_count = 0;
            return &machine->gpus[index];
        }
    return &vanished;
}

static bool read_machine_key(struct machine *machine, const char *key, const char *value)
{
    static const char *const privileges[] = {"everyone", "root", "nobody", NULL};
    int privileged;
    unsigned long long cuda;
    if (strcmp(key, "driver") == 0)
        return copy_text(machine->driver, sizeof machine->driver, value);
    if (strcmp(key, "nvml") == 0)
        return copy_text(machine->nvml, sizeof machine->nvml, value);
    if (strcmp(key, "boot") == 0)
        return copy_text(machine->boot, sizeof machine->boot, value);
    if (strcmp(key, "state") == 0)
        return copy_text(machine->state, sizeof machine->state, value);
    if (strcmp(key, "confidential") == 0)
        return read_choice(value, switched_words, &machine->confidential);
    if (strcmp(key, "cuda") == 0 && read_number(value, 10, INT_MAX, &cuda)) {
        machine->cuda = (int)cuda;
        return true;
    }
    if (strcmp(key, "privileged") == 0 && read_choice(value, privileges, &privileged)) {
        machine->privileged = (enum privileged)privileged;
        return true;
    }
    return false;
}

static bool read_gpu_key(struct gpu *gpu, const char *name, const char *value, bool state)
{
    for (size_t row = 0; row < sizeof keys / sizeof *keys; row++)
        if (strcmp(keys[row].name, name) == 0)
            return (keys[row].changes || !state) && read_value(gpu, &keys[row], value);
    return false;
}

static bool read_lines(struct machine *machine, FILE *file, bool state)
{
    char line[320], key[32], value[288];
    struct gpu *gpu = NULL;
    while (fgets(line, sizeof line, file)) {
        char *text = line + strspn(line, " \t\n");
        if (*text == '\0' || *text == '#')
            continue;
        if (sscanf(text, "%31s %287[^\n]", key, value) != 2)
            return false;
        bool good = gpu == &vanished;
        if (strcmp(key, "gpu") == 0)
            good = (gpu = select_gpu(machine, value, state)) != NULL;
        else if (gpu == NULL)
            good = read_machine_key(machine, key, value);
        else if (gpu != &vanished)
            good = read_gpu_key(gpu, key, value, state);
        if (!good)
            return false;
    }
    return true;
}

bool description_read(struct machine *machine, const char *path, bool state)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return state; /* nothing has been done to it yet */
    bool good = read_lines(machine, file, state);
    fclose(file);
    return good;
}
