/* What is said of MIG devices beside their life. */
#ifndef MIG_H
#define MIG_H

#include "session.h"

/* "MIG 1g.10gb", "MIG 1c.3g.40gb" */
void mig_device_name(const struct found *device, char name[NAME_SIZE]);

/* "MIG 1g.10gb" */
void gpu_instance_name(const struct gpu *gpu, const struct profile *profile, char name[NAME_SIZE]);

/* "MIG-<uuid>": the same for the same GPU, GPU instance and compute instance, as drivers since 470 have it. */
void mig_device_uuid(const struct found *device, char uuid[NAME_SIZE]);

unsigned long long mig_device_memory_bytes(const struct found *device);

#endif
