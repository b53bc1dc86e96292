#include "mcap/mcap.h"

const uint8_t hb_mcap_magic[HB_MCAP_MAGIC_SIZE] = {0x89, 'M', 'C', 'A', 'P', '0', '\r', '\n'};

/* the polynomial 0xedb88320, four bits at a time */
static const uint32_t four_bits[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};

uint32_t hb_mcap_crc(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *p = data;

    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc = four_bits[(crc ^ p[i]) & 15] ^ (crc >> 4);
        crc = four_bits[(crc ^ (p[i] >> 4)) & 15] ^ (crc >> 4);
    }
    return ~crc;
}
