/* What callers of NVML share with the library: error codes and the layout of structures, each checked. */
#ifndef NVML_H
#define NVML_H

#define ERRORS(X)                                          \
    X(SUCCESS, 0, "Success")                               \
    X(UNINITIALIZED, 1, "Uninitialized")                   \
    X(INVALID_ARGUMENT, 2, "Invalid Argument")             \
    X(NOT_SUPPORTED, 3, "Not Supported")                   \
    X(NO_PERMISSION, 4, "Insufficient Permissions")        \
    X(NOT_FOUND, 6, "Not Found")                           \
    X(INSUFFICIENT_SIZE, 7, "Insufficient Size")           \
    X(DRIVER_NOT_LOADED, 9, "Driver Not Loaded")           \
    X(TIMEOUT, 10, "Timeout")                              \
    X(FUNCTION_NOT_FOUND, 13, "Function Not Found")        \
    X(GPU_IS_LOST, 15, "GPU is lost")                      \
    X(RESET_REQUIRED, 16, "GPU requires reset")            \
    X(LIB_RM_VERSION_MISMATCH, 18, "Driver/library version mismatch") \
    X(IN_USE, 19, "In use by another client")              \
    X(INSUFFICIENT_RESOURCES, 23, "Insufficient Resources") \
    X(ARGUMENT_VERSION_MISMATCH, 25, "Argument Version Mismatch") \
    X(UNKNOWN, 999, "Unknown Error")

enum nvml_error {
#define X(name, code, text) name = code,
    ERRORS(X)
#undef X
};

#define STRUCT_VERSION(type, version) ((unsigned)sizeof(type) | (version) << 24)
#define NAME_SIZE 96

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};
_Static_assert(sizeof(struct pci_info) == 68, "nvmlPciInfo_t");

struct memory {
    unsigned long long total, free, used;
};
_Static_assert(sizeof(struct memory) == 24, "nvmlMemory_t");

struct fabric_info_v1 {
    unsigned char cluster[16];
    unsigned status, clique;
    unsigned char state;
};
_Static_assert(sizeof(struct fabric_info_v1) == 28, "nvmlGpuFabricInfo_t");

struct fabric_info { /* version 2; version 3 goes on with the summary */
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique;
    unsigned char state;
    unsigned health_mask;
    unsigned char health_summary;
};
_Static_assert(sizeof(struct fabric_info) == 40, "nvmlGpuFabricInfo_v3_t");

struct process_info {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct process_info) == 24, "nvmlProcessInfo_v2_t");

struct field_value {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned type;
    int error;
    union {
        double real;
        unsigned number;
        unsigned long long large;
    } value;
};
_Static_assert(sizeof(struct field_value) == 40, "nvmlFieldValue_t");

struct confidential {
    unsigned environment, feature, developer_tools;
};
_Static_assert(sizeof(struct confidential) == 12, "nvmlConfComputeSystemState_t");

struct placement {
    unsigned start, size;
};

struct engines { /* as in nvmlGpuInstanceProfileInfo_t */
    unsigned copy, decoders, encoders, jpeg, ofa;
};

struct gpu_profile_info {
    unsigned id, p2p, slices, instances, multiprocessors;
    struct engines engines;
    unsigned long long memory_mib;
};
_Static_assert(sizeof(struct gpu_profile_info) == 48, "nvmlGpuInstanceProfileInfo_t");

struct gpu_profile_info_v2 {
    unsigned version, id, p2p, slices, instances, multiprocessors;
    struct engines engines;
    unsigned long long memory_mib;
    char name[NAME_SIZE];
};
_Static_assert(sizeof(struct gpu_profile_info_v2) == 152, "nvmlGpuInstanceProfileInfo_v2_t");

struct compute_profile_info {
    unsigned id, slices, instances, multiprocessors;
    struct engines shared;
};
_Static_assert(sizeof(struct compute_profile_info) == 36, "nvmlComputeInstanceProfileInfo_t");

struct compute_profile_info_v2 {
    unsigned version, id, slices, instances, multiprocessors;
    struct engines shared;
    char name[NAME_SIZE];
};
_Static_assert(sizeof(struct compute_profile_info_v2) == 136, "nvmlComputeInstanceProfileInfo_v2_t");

struct gpu_instance_info {
    void *device;
    unsigned id, profile;
    struct placement placement;
};
_Static_assert(sizeof(struct gpu_instance_info) == 24, "nvmlGpuInstanceInfo_t");

struct compute_instance_info {
    void *device, *gpu_instance;
    unsigned id, profile;
    struct placement placement;
};
_Static_assert(sizeof(struct compute_instance_info) == 32, "nvmlComputeInstanceInfo_t");

struct device_attributes {
    unsigned multiprocessors;
    struct engines shared;
    unsigned gpu_instance_slices, compute_instance_slices;
    unsigned long long memory_mib;
};
_Static_assert(sizeof(struct device_attributes) == 40, "nvmlDeviceAttributes_t");

#endif
