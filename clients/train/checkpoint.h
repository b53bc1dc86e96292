/* Checkpoints: a training run's state in a safetensors file that is replaced as a whole, so that a run that was ended
 * at any moment continues to the same bytes. */
#ifndef HB_CHECKPOINT_H
#define HB_CHECKPOINT_H

#include "model/model.h"
#include "train/trainer.h"

typedef struct hb_checkpoint hb_checkpoint;

/* settings: hb_settings_text of the run. */
int hb_checkpoint_save(const char *path, const hb_model *m, const hb_trainer_state *t, const char *settings,
                       uint64_t data_hash, hb_error *err);

int hb_checkpoint_load(hb_checkpoint **ret, const char *path, hb_error *err);
void hb_checkpoint_free(hb_checkpoint *c);
const char *hb_checkpoint_settings(const hb_checkpoint *c);
/* Puts the state back; -EINVAL when the data or the sizes are not those of the checkpoint. */
int hb_checkpoint_restore(const hb_checkpoint *c, hb_model *m, hb_trainer_state *t, uint64_t data_hash, hb_error *err);

#endif
