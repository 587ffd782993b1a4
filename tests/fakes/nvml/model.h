/* A machine with GPUs, apart from how NVML presents it. */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>

#define MODEL_LARGEST_TEXT 96
#define MODEL_MOST_GPUS 16
#define MODEL_UUID_BYTES 16

enum mig { MIG_UNSUPPORTED, MIG_DISABLED, MIG_ENABLED };
enum fabric { FABRIC_UNSUPPORTED, FABRIC_NOT_STARTED, FABRIC_IN_PROGRESS, FABRIC_COMPLETED };

struct gpu {
    unsigned domain, bus, device, function;
    unsigned pci_device_id; /* device << 16 | vendor */
    char name[MODEL_LARGEST_TEXT];
    char uuid[MODEL_LARGEST_TEXT];
    unsigned long long memory_bytes;
    enum mig mig_current, mig_pending;
    int nvlinks; /* active links; -1: a board without NVLink */
    enum fabric fabric;
    unsigned char cluster[MODEL_UUID_BYTES];
    unsigned clique;
};

struct machine {
    char driver[MODEL_LARGEST_TEXT];
    unsigned gpu_count;
    struct gpu gpus[MODEL_MOST_GPUS];
};

/* Reads the file named by FAKE_NVML_MACHINE; false when it is missing or holds a line that cannot be read. */
bool model_read(struct machine *machine);

#endif
