/* MCAP, a container for messages with times (https://mcap.dev/spec): what writer and reader share.
 *
 *     magic  Header  { Schema Channel Chunk { Message... } MessageIndex... }...  DataEnd
 *     Schema... Channel... Statistics ChunkIndex...  SummaryOffset...  Footer  magic
 *
 * A record is one byte of kind, eight bytes of length, and its content. All numbers are little-endian; a string is its
 * length in four bytes and its characters; a map is its length in bytes, and keys and values in turn. */
#ifndef HB_MCAP_H
#define HB_MCAP_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    HB_MCAP_HEADER = 0x01,
    HB_MCAP_FOOTER = 0x02,
    HB_MCAP_SCHEMA = 0x03,
    HB_MCAP_CHANNEL = 0x04,
    HB_MCAP_MESSAGE = 0x05,
    HB_MCAP_CHUNK = 0x06,
    HB_MCAP_MESSAGE_INDEX = 0x07,
    HB_MCAP_CHUNK_INDEX = 0x08,
    HB_MCAP_ATTACHMENT = 0x09,
    HB_MCAP_ATTACHMENT_INDEX = 0x0a,
    HB_MCAP_STATISTICS = 0x0b,
    HB_MCAP_METADATA = 0x0c,
    HB_MCAP_METADATA_INDEX = 0x0d,
    HB_MCAP_SUMMARY_OFFSET = 0x0e,
    HB_MCAP_DATA_END = 0x0f,
} hb_mcap_kind;

enum {
    HB_MCAP_MAGIC_SIZE = 8,
    HB_MCAP_RECORD_SIZE = 9,   /* of a record before its content: kind and length */
    HB_MCAP_MESSAGE_SIZE = 22, /* of a message before its data: channel, sequence, two times */
    HB_MCAP_FOOTER_SIZE = 20,
    HB_MCAP_INDEX_ENTRY = 16, /* of a message index: time and offset */
};

extern const uint8_t hb_mcap_magic[HB_MCAP_MAGIC_SIZE];

/* CRC-32 (IEEE 802.3) of what has come by so far; starts with 0. */
uint32_t hb_mcap_crc(uint32_t crc, const void *data, size_t size);

#endif
