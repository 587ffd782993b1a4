/* A machine with GPUs, apart from how NVML presents it: what its description says, and what has been done to
 * it since. */
#ifndef MODEL_H
#define MODEL_H

#include "nvml.h"
#include "profiles.h"

#include <stdbool.h>
#include <stdio.h>

#define MODEL_MOST_GPUS 16
#define MODEL_PATH_SIZE 256
#define MODEL_MOST_LINKS 18 /* of every board since Hopper */
#define MODEL_MOST_INSTANCES 8
#define MODEL_MOST_PROCESSES 32
#define MODEL_MOST_FAULTS 16
#define MODEL_EVERYWHERE 0xffffffffu /* NVML's "no GPU instance", "no compute instance" */
#define MODEL_KILLED_BEFORE (-1)     /* faults that are no error of NVML: the process is killed */
#define MODEL_KILLED_AFTER (-2)
#define MODEL_UNKNOWN (-1) /* the description does not say: NVML answers "Not Supported" */

enum mode { OFF, ON };
/* Under MODEL_UNKNOWN the call itself is not supported. */
enum fabric { FABRIC_NOT_SUPPORTED, FABRIC_NOT_STARTED, FABRIC_IN_PROGRESS, FABRIC_COMPLETED };
enum virtualization { VIRTUALIZATION_NONE, PASSTHROUGH, VGPU, HOST_VGPU, HOST_VSGA };
enum remote { REMOTE_GPU = 0, REMOTE_SWITCH = 2, REMOTE_UNKNOWN = 255 };
enum process_kind { COMPUTE, GRAPHICS, MPS };
enum reset { RESET_FROM_OUTSIDE, RESET_BY_ITSELF, RESET_TOGETHER };
enum lost { PRESENT, LOST, OFF_THE_BUS };
enum privileged { EVERYONE, ROOT, NOBODY };

struct address {
    unsigned domain, bus, device, function;
};

struct setting { /* what holds now, and what a reset or a reboot brings; both MODEL_UNKNOWN where there is
                    none */
    int current, pending;
};

struct link {
    bool active, hidden; /* hidden: NVML names the remote device FFFFFFFF:FF:FF.0 */
    enum remote remote;
    struct address address;
};

struct compute_instance {
    unsigned id, profile, start, device; /* device: index of the MIG device that it is */
};

struct gpu_instance {
    unsigned id;
    const struct profile *profile;
    unsigned start, compute_count;
    struct compute_instance computes[MODEL_MOST_INSTANCES];
};

struct process {
    unsigned pid;
    enum process_kind kind;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

struct fault {
    char call[NAME_SIZE];
    unsigned nth; /* 0: every one */
    int error;
    unsigned calls; /* so far; kept in the state */
};

struct gpu {
    struct address address;
    unsigned pci_device_id, pci_subsystem_id; /* device << 16 | vendor */
    char name[NAME_SIZE], uuid[NAME_SIZE], serial[NAME_SIZE], vbios[NAME_SIZE], gsp[NAME_SIZE];
    unsigned long long memory_bytes;
    int minor, architecture, capability, virtualization, addressing, c2c, numa_node, persistence, recovery;
    struct setting mig, ecc;
    unsigned long long ecc_errors[2]; /* corrected, uncorrected */
    int remapped[4];                  /* rows by correctable and uncorrectable errors, pending, failed */
    int pcie[4];                      /* generation and width now, at most */
    int nvlinks;                      /* links that the board has; MODEL_UNKNOWN: a board without NVLink */
    struct link links[MODEL_MOST_LINKS];
    int fabric; /* enum fabric */
    unsigned char cluster[16];
    unsigned clique, fabric_status, fabric_health;
    int lost, reset;                   /* enum lost, enum reset */
    bool held;                         /* by a client that is no process in NVML's lists */
    char device_file[MODEL_PATH_SIZE]; /* a process that has it open holds the GPU, too */
    unsigned process_count, fault_count, instance_count;
    struct process processes[MODEL_MOST_PROCESSES];
    struct fault faults[MODEL_MOST_FAULTS];
    struct gpu_instance instances[MODEL_MOST_INSTANCES];
};

struct machine {
    char driver[NAME_SIZE], nvml[NAME_SIZE], boot[NAME_SIZE], state[MODEL_PATH_SIZE];
    int cuda, confidential;
    enum privileged privileged;
    unsigned gpu_count;
    struct gpu gpus[MODEL_MOST_GPUS];
};

/* Reads the file that FAKE_NVML_MACHINE names, and the state if it names one; false when one cannot be read.
 */
bool model_read(struct machine *machine);

/* Takes the lock of the state, for a change; what it returns is for model_unlock. */
int model_lock(const struct machine *machine);
void model_unlock(int lock);

/* Counts this process among the clients of the driver until it closes what this returns. */
int model_attach(const struct machine *machine);

/* False where another process is among the clients. */
bool model_is_alone(const struct machine *machine);

/* Keeps what may change in the state file, whole or not at all; true as well where there is no state file. */
bool model_write(const struct machine *machine);

/* Leaves a state half written beside the real one, as a process does that is killed while writing. */
void model_write_half(const struct machine *machine);

const struct model *model_of(const struct gpu *gpu);
bool model_has_mig(const struct gpu *gpu);

/* The id of a GPU instance follows from where it lies. */
unsigned model_instance_id(const struct model *model, const struct profile *profile, unsigned start);

#endif
