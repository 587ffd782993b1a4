/* nvidia-smi, in parts. */
#ifndef SMI_H
#define SMI_H

#include "mig.h"

const char *nvmlErrorString(int code);

/* "00000000:1B:00.0" */
void smi_name_bus(unsigned index, char bus_id[32]);

/* Says that a GPU is lost, and returns that error. */
int smi_lost(unsigned index);

/* Prints the chosen GPUs as XML. */
int smi_query(const bool *chosen);

#endif
