/* The text of a description and of a state. */
#ifndef DESCRIPTION_H
#define DESCRIPTION_H

#include "model.h"

/* Reads a file into the machine; false where a line cannot be read. A state takes precedence over what was
   read before it, has only the keys that may change, and need not exist. */
bool description_read(struct machine *machine, const char *path, bool state);

/* "disabled", "enabled", "enabling", "disabling" */
const char *setting_word(struct setting setting);

extern const char *const switched_words[];

#endif
