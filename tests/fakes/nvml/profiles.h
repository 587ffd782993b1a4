/* What GPU models with MIG offer. */
#ifndef PROFILES_H
#define PROFILES_H

#include "nvml.h"

#include <stdbool.h>

#define MOST_PROFILES 11
#define MOST_PLACEMENTS 7

enum generation { AMPERE = 7, HOPPER = 9, BLACKWELL = 10 }; /* NVML_DEVICE_ARCH_* */

struct profile {   /* slices: compute; size and starts: memory slices */
    unsigned kind; /* NVML_GPU_INSTANCE_PROFILE_* */
    unsigned id, slices, size, limit;
    int starts[MOST_PLACEMENTS + 1]; /* in the order in which NVML takes them by itself; -1 ends them */
    const char *attributes;
};

struct model {
    unsigned devices[5]; /* PCI device ids */
    enum generation generation;
    unsigned capability; /* CUDA's compute capability, ten times */
    unsigned gigabytes, compute_slices, memory_slices;
    unsigned profile_count;
    const struct profile *profiles;
    unsigned memory_mib[MOST_PROFILES], multiprocessors[MOST_PROFILES]; /* of each profile */
    const struct engines *engines;
};

/* The model of a PCI device id; NULL for a GPU without MIG, or one that the table lacks. */
const struct model *model_of_device(unsigned device);

/* NULL where the model lacks it, or is itself NULL. */
const struct profile *profile_by_id(const struct model *model, unsigned id);
const struct profile *profile_by_kind(const struct model *model, unsigned kind);

#endif
