/* Sources: NVIDIA MIG User Guide, supported MIG profiles; `nvidia-smi mig -lgip`, `-lgipp` and `-cgi` of real GPUs.

   NVML's own order of placements was seen on an A100 for 1g (6, 4, 5, 0, 1, 2, 3) and 3g (4, 0); that of 2g
   follows from the documented failure of `-cgi 19,19,14,9`: 0, once 4 and 6 are taken. The others are assumed:
   upper half first. So are the engines of B200 from 3g upwards, and those of RTX PRO 6000. */
#include "profiles.h"

#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SINGLE_SLICES {6, 4, 5, 0, 1, 2, 3, -1}
#define QUARTERS {6, 9, 0, 3, -1}
#define HALVES {6, 0, -1}
#define WHOLE {0, -1}

static const struct profile seven[] = {
    {0, 19, 1, 1, 7, SINGLE_SLICES, ""},
    {7, 20, 1, 1, 1, SINGLE_SLICES, "+me"},
    {9, 15, 1, 2, 4, {6, 4, 0, 2, -1}, ""},
    {1, 14, 2, 2, 3, {4, 0, 2, -1}, ""},
    {2, 9, 3, 4, 2, {4, 0, -1}, ""},
    {3, 5, 4, 4, 1, WHOLE, ""},
    {4, 0, 7, 8, 1, WHOLE, ""},
};

static const struct profile a30[] = {
    {0, 14, 1, 1, 4, {2, 3, 0, 1, -1}, ""},
    {7, 21, 1, 1, 1, {2, 3, 0, 1, -1}, "+me"},
    {1, 5, 2, 2, 2, {2, 0, -1}, ""},
    {8, 6, 2, 2, 1, {2, 0, -1}, "+me"},
    {3, 0, 4, 4, 1, WHOLE, ""},
};

static const struct profile rtx_pro_6000[] = {
    {0, 14, 1, 3, 4, QUARTERS, ""},
    {7, 21, 1, 3, 1, QUARTERS, "+me"},
    {10, 47, 1, 3, 4, QUARTERS, "+gfx"},
    {15, 65, 1, 3, 1, QUARTERS, "+me.all"},
    {13, 67, 1, 3, 4, QUARTERS, "-me"},
    {1, 5, 2, 6, 2, HALVES, ""},
    {11, 35, 2, 6, 2, HALVES, "+gfx"},
    {16, 64, 2, 6, 1, HALVES, "+me.all"},
    {14, 66, 2, 6, 2, HALVES, "-me"},
    {3, 0, 4, 12, 1, WHOLE, ""},
    {12, 32, 4, 12, 1, WHOLE, "+gfx"},
};

/* Copy, decode, encode, JPEG and OFA engines of each profile. */
static const struct engines a100_engines[] = {
    {1, 0, 0, 0, 0}, {1, 1, 0, 1, 1}, {1, 1, 0, 0, 0}, {2, 1, 0, 0, 0},
    {3, 2, 0, 0, 0}, {4, 2, 0, 0, 0}, {7, 5, 0, 1, 1},
};
static const struct engines a30_engines[] = {
    {1, 0, 0, 0, 0}, {1, 1, 0, 1, 1}, {2, 2, 0, 0, 0}, {2, 2, 0, 1, 1}, {4, 4, 0, 1, 1},
};
static const struct engines hopper_engines[] = {
    {1, 1, 0, 1, 0}, {1, 1, 0, 1, 1}, {1, 1, 0, 1, 0}, {2, 2, 0, 2, 0},
    {3, 3, 0, 3, 0}, {4, 4, 0, 4, 0}, {8, 7, 0, 7, 1},
};
static const struct engines b200_engines[] = {
    {2, 1, 0, 1, 0}, {2, 1, 0, 1, 1}, {2, 1, 0, 1, 0}, {4, 2, 0, 2, 0},
    {6, 3, 0, 3, 0}, {8, 4, 0, 4, 0}, {16, 7, 0, 7, 1},
};
static const struct engines rtx_engines[] = {
    {1, 1, 1, 1, 0}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 0}, {1, 4, 4, 4, 1}, {1, 0, 0, 0, 0}, {2, 2, 2, 2, 0},
    {2, 2, 2, 2, 0}, {2, 4, 4, 4, 1}, {2, 0, 0, 0, 0}, {4, 4, 4, 4, 1}, {4, 4, 4, 4, 1},
};

/* Assumed where a GPU was not seen: instances have eighths of the memory, and of the multiprocessors. */
#define EIGHTHS(whole) {(whole) / 8, (whole) / 8, (whole) / 4, (whole) / 4, (whole) / 2, (whole) / 2, whole}

#define OFFERS(table) .profile_count = COUNT(table), .profiles = table
#define SEVEN_OF_EIGHT .compute_slices = 7, .memory_slices = 8, OFFERS(seven)

static const struct model models[] = {
    {.devices = {0x20b0, 0x20b1, 0x20f1, 0x20f6},
     .generation = AMPERE,
     .capability = 80,
     .gigabytes = 40,
     SEVEN_OF_EIGHT,
     .memory_mib = {4864, 4864, 9856, 9856, 19968, 19968, 40192},
     .multiprocessors = {14, 14, 14, 28, 42, 56, 98},
     .engines = a100_engines},
    {.devices = {0x20b2, 0x20b5, 0x20f3, 0x20f5},
     .generation = AMPERE,
     .capability = 80,
     .gigabytes = 80,
     SEVEN_OF_EIGHT,
     .memory_mib = {9856, 9856, 19968, 19968, 40192, 40192, 80384},
     .multiprocessors = {14, 14, 14, 28, 42, 56, 98},
     .engines = a100_engines},
    {.devices = {0x20b7},
     .generation = AMPERE,
     .capability = 80,
     .gigabytes = 24,
     .compute_slices = 4,
     .memory_slices = 4,
     OFFERS(a30),
     .memory_mib = {5952, 5952, 11968, 11968, 24000},
     .multiprocessors = {14, 14, 28, 28, 56},
     .engines = a30_engines},
    {.devices = {0x2330, 0x2331, 0x2322, 0x2324},
     .generation = HOPPER,
     .capability = 90,
     .gigabytes = 80,
     SEVEN_OF_EIGHT,
     .memory_mib = {9984, 9984, 20096, 20096, 40448, 40448, 81152},
     .multiprocessors = {16, 16, 26, 32, 60, 64, 132},
     .engines = hopper_engines},
    {.devices = {0x2335, 0x233b},
     .generation = HOPPER,
     .capability = 90,
     .gigabytes = 141,
     SEVEN_OF_EIGHT,
     .memory_mib = {16384, 16384, 33280, 33280, 71424, 71424, 143360},
     .multiprocessors = {16, 16, 26, 32, 60, 64, 132},
     .engines = hopper_engines},
    /* Memory and multiprocessors from 3g upwards are assumed: multiples of what 1g and 2g have. */
    {.devices = {0x2901},
     .generation = BLACKWELL,
     .capability = 100,
     .gigabytes = 180,
     SEVEN_OF_EIGHT,
     .memory_mib = {22528, 22528, 45312, 45312, 90624, 90624, 181248},
     .multiprocessors = {18, 18, 30, 36, 54, 72, 148},
     .engines = b200_engines},
    {.devices = {0x20b6},
     .generation = AMPERE,
     .capability = 80,
     .gigabytes = 96,
     SEVEN_OF_EIGHT,
     .memory_mib = EIGHTHS(97280),
     .multiprocessors = EIGHTHS(108),
     .engines = a100_engines},
    {.devices = {0x2321, 0x2339, 0x233a},
     .generation = HOPPER,
     .capability = 90,
     .gigabytes = 94,
     SEVEN_OF_EIGHT,
     .memory_mib = EIGHTHS(95488),
     .multiprocessors = EIGHTHS(132),
     .engines = hopper_engines},
    {.devices = {0x2329, 0x233d, 0x2342},
     .generation = HOPPER,
     .capability = 90,
     .gigabytes = 96,
     SEVEN_OF_EIGHT,
     .memory_mib = EIGHTHS(97280),
     .multiprocessors = EIGHTHS(132),
     .engines = hopper_engines},
    {.devices = {0x2348},
     .generation = HOPPER,
     .capability = 90,
     .gigabytes = 144,
     SEVEN_OF_EIGHT,
     .memory_mib = EIGHTHS(146432),
     .multiprocessors = EIGHTHS(132),
     .engines = hopper_engines},
    {.devices = {0x2941},
     .generation = BLACKWELL,
     .capability = 100,
     .gigabytes = 186,
     SEVEN_OF_EIGHT,
     .memory_mib = EIGHTHS(189184),
     .multiprocessors = EIGHTHS(152),
     .engines = b200_engines},
    {.devices = {0x3182},
     .generation = BLACKWELL,
     .capability = 103,
     .gigabytes = 269,
     SEVEN_OF_EIGHT,
     .memory_mib = EIGHTHS(274432),
     .multiprocessors = EIGHTHS(148),
     .engines = b200_engines},
    {.devices = {0x31c2},
     .generation = BLACKWELL,
     .capability = 103,
     .gigabytes = 278,
     SEVEN_OF_EIGHT,
     .memory_mib = EIGHTHS(283648),
     .multiprocessors = EIGHTHS(152),
     .engines = b200_engines},
    {.devices = {0x2bb5, 0x2bb1, 0x2bb4},
     .generation = BLACKWELL,
     .capability = 120,
     .gigabytes = 96,
     .compute_slices = 4,
     .memory_slices = 12,
     OFFERS(rtx_pro_6000),
     .memory_mib = {24192, 24192, 24192, 24192, 24192, 48512, 48512, 48512, 48512, 97408, 97408},
     .multiprocessors = {46, 46, 46, 46, 46, 94, 94, 94, 94, 188, 188},
     .engines = rtx_engines},
};

const struct model *model_of_device(unsigned device)
{
    for (size_t row = 0; row < COUNT(models); row++)
        for (size_t id = 0; id < COUNT(models[row].devices); id++)
            if (device && models[row].devices[id] == device)
                return &models[row];
    return NULL;
}

const struct profile *profile_by_id(const struct model *model, unsigned id)
{
    for (unsigned row = 0; model && row < model->profile_count; row++)
        if (model->profiles[row].id == id)
            return &model->profiles[row];
    return NULL;
}

const struct profile *profile_by_kind(const struct model *model, unsigned kind)
{
    for (unsigned row = 0; model && row < model->profile_count; row++)
        if (model->profiles[row].kind == kind)
            return &model->profiles[row];
    return NULL;
}
