/* The part of nvidia-smi that numaforge speaks, on the same GPUs: -L, -q -x, -r, mig -lgi. */
#include "mig.h"

#include <stdlib.h>
#include <string.h>

int main(void)
{
    return 2;
}
