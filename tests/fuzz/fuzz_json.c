/* Any message of the contract as JSON, for people and scripts: the first byte says which message, the second how much
 * room there is for its text. With room enough the text is JSON; with less it ends where the room does. */
#include <jansson.h>

#include "fuzz.h"
#include "json.h"
#include "recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ProtobufCMessageDescriptor *const reply[] = {&hilbert__v1__action_reply__descriptor,
                                                       &hilbert__v1__control_reply__descriptor};

    if (size < 2)
        return 0;
    unsigned which = data[0] % (HB_NTOPICS + 2);
    ProtobufCMessage *m = protobuf_c_message_unpack(
        which < HB_NTOPICS ? hb_topic_descriptor[which] : reply[which - HB_NTOPICS], NULL, size - 2, data + 2);
    if (!m)
        return 0;
    size_t little = data[1], n = hb_json_write(m, NULL, 0);
    char *text = malloc(n + 1), *part = malloc(little ? little : 1);
    FUZZ_EXPECT(text && part);
    FUZZ_EXPECT(hb_json_write(m, text, n + 1) == n && strlen(text) == n);
    FUZZ_EXPECT(hb_json_write(m, part, little) == n);
    if (little)
        FUZZ_EXPECT(strlen(part) == (n < little ? n : little - 1) && memcmp(part, text, strlen(part)) == 0);
    /* a counter may be beyond what jansson takes for an integer */
    json_error_t err;
    json_t *parsed = json_loads(text, JSON_DECODE_INT_AS_REAL, &err);
    if (!parsed)
        fprintf(stderr, "%s at %d of %s\n", err.text, err.position, text);
    FUZZ_EXPECT(parsed);
    json_decref(parsed);
    free(text);
    free(part);
    protobuf_c_message_free_unpacked(m, NULL);
    return 0;
}
