#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "model/safetensors.h"

static char folder[] = "/tmp/test_safetensors-XXXXXX";
static char path[sizeof folder + 32];

static void write_bytes(const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* `length` is what the file says of its header, or -1 for the truth; data are zeros */
static void write_file(const char *header, long long length, size_t data)
{
    size_t size = strlen(header);
    char *bytes = calloc(8 + size + data, 1);
    uint64_t said = length < 0 ? size : (uint64_t)length;

    assert_non_null(bytes);
    memcpy(bytes, &said, 8);
    memcpy(bytes + 8, header, size);
    write_bytes(bytes, 8 + size + data);
    free(bytes);
}

/* The file is refused with this message behind its name, and nothing is returned. */
static void assert_refused(const char *what, const char *message)
{
    hb_safetensors *f = NULL;
    hb_error err = {0};
    char expected[1024];

    snprintf(expected, sizeof expected, "%s: %s", path, message);
    int r = hb_safetensors_load(&f, path, &err);
    if (r >= 0 || f || strcmp(err.text, expected) != 0 || r != -err.code)
        fail_msg("%s: returned %d\n  said     %s\n  expected %s", what, r, err.text, expected);
}

#define TENSOR(name, dtype, shape, begin, end)                                                                         \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

#define LONG_NAME                                                                                                      \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"             \
    "01234567890123456789012345678"

static const struct {
    const char *what, *header;
    long long length; /* -1: right */
    size_t data;
    const char *message;
} malformed[] = {
    /* the header's length */
    {"length 0", "", 0, 0, "the header does not start with '{'"},
    {"length of 1 MB and 1", "{}", 1000001, 0, "the header says it is 1000001 bytes long, expected at most 1000000"},
    {"length of 2^63 - 1", "{}", 0x7fffffffffffffff, 0,
     "the header says it is 9223372036854775807 bytes long, expected at most 1000000"},
    {"length beyond the file", "{}", 3, 0, "the header says it is 3 bytes long, but only 2 follow"},
    {"length of 1 MB in a small file", "{}", 1000000, 6, "the header says it is 1000000 bytes long, but only 8 follow"},
    {"length that cuts the JSON", "{\"a\":1}", 4, 0, "the header does not end with '}' and spaces"},
    {"length that takes data in", "{}", 4, 2, "the header does not end with '}' and spaces"},

    /* JSON */
    {"only spaces", "    ", -1, 0, "the header does not start with '{'"},
    {"space before the brace", " {}", -1, 0, "the header does not start with '{'"},
    {"an array", "[]", -1, 0, "the header does not start with '{'"},
    {"padded with newlines", "{}\n\n", -1, 0, "the header does not end with '}' and spaces"},
    {"something behind the object", "{} {}", -1, 0, "header, byte 4: end of file expected near '{'"},
    {"not JSON", "{a}", -1, 0, "header, byte 2: string or '}' expected near 'a'"},
    {"unbalanced", "{\"a\":{}", -1, 0, "header, byte 7: '}' expected near end of file"},
    {"UTF-8 that is cut short", "{\"\xc3\":1}", -1, 0, "header, byte 2: unable to decode byte 0xc3 near '\"'"},
    {"UTF-8 that is overlong", "{\"\xc0\xaf\":1}", -1, 0, "header, byte 2: unable to decode byte 0xc0 near '\"'"},
    {"UTF-8 of a surrogate", "{\"\xed\xa0\x80\":1}", -1, 0, "header, byte 2: unable to decode byte 0xed near '\"'"},
    {"bad byte in metadata", "{\"__metadata__\":{\"a\":\"\xff\"}}", -1, 0,
     "header, byte 22: unable to decode byte 0xff near '\"'"},
    {"NUL in a string", "{\"a\\u0000\":1}", -1, 0,
     "header, byte 10: NUL byte in object key not supported near '\"a\\u0000\"'"},
    {"integer beyond 64 bits", "{" TENSOR("a", "F32", "[99999999999999999999]", "0", "4") "}", -1, 4,
     "header, byte 49: too big integer near '99999999999999999999'"},
    {"the same tensor twice", "{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("a", "F32", "[1]", "4", "8") "}", -1,
     8, "header, byte 57: duplicate object key near '\"a\"'"},
    {"the same field twice", "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", -1, 4,
     "header, byte 27: duplicate object key near '\"dtype\"'"},
    {"metadata twice", "{\"__metadata__\":{},\"__metadata__\":{}}", -1, 0,
     "header, byte 33: duplicate object key near '\"__metadata__\"'"},
    {"the same metadata key twice", "{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", -1, 0,
     "header, byte 27: duplicate object key near '\"k\"'"},

    /* metadata */
    {"metadata that is a string", "{\"__metadata__\":\"x\"}", -1, 0, "'__metadata__' is not an object of strings"},
    {"metadata that is null", "{\"__metadata__\":null}", -1, 0, "'__metadata__' is not an object of strings"},
    {"metadata of a number", "{\"__metadata__\":{\"dt\":0.05}}", -1, 0, "metadata 'dt' is not a string"},
    {"metadata of an object", "{\"__metadata__\":{\"dt\":{}}}", -1, 0, "metadata 'dt' is not a string"},
    {"metadata key without letters", "{\"__metadata__\":{\"\":\"\"}}", -1, 0,
     "a metadata key is 0 bytes long, expected 1 to 127"},
    {"escape sequence in metadata", "{\"__metadata__\":{\"notes\":\"\\u001b[2J\"}}", -1, 0,
     "metadata 'notes' has control characters in it"},
    {"escape sequence in a metadata key", "{\"__metadata__\":{\"\\u001b[2J\":\"\"}}", -1, 0,
     "a metadata key has control characters in it"},

    /* tensors: names and fields */
    {"name without letters", "{" TENSOR("", "F32", "[1]", "0", "4") "}", -1, 4,
     "a tensor name is 0 bytes long, expected 1 to 127"},
    {"name too long", "{" TENSOR(LONG_NAME, "F32", "[1]", "0", "4") "}", -1, 4,
     "a tensor name is 129 bytes long, expected 1 to 127"},
    {"name with a newline", "{" TENSOR("a\\nb", "F32", "[1]", "0", "4") "}", -1, 4,
     "a tensor name has control characters in it"},
    {"tensor that is a number", "{\"a\":1}", -1, 0, "tensor 'a' is not an object"},
    {"tensor that is null", "{\"a\":null}", -1, 0, "tensor 'a' is not an object"},
    {"no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", -1, 4, "tensor 'a': no 'dtype'"},
    {"no shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", -1, 4, "tensor 'a': no 'shape'"},
    {"no offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", -1, 4, "tensor 'a': no 'data_offsets'"},
    {"one field more", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", -1, 4,
     "tensor 'a': 4 keys, expected dtype, shape and data_offsets alone"},

    /* dtype */
    {"integers", "{" TENSOR("a", "I64", "[1]", "0", "8") "}", -1, 8,
     "tensor 'a': dtype 'I64', expected F64, F32, F16 or BF16"},
    {"lower case", "{" TENSOR("a", "f32", "[1]", "0", "4") "}", -1, 4,
     "tensor 'a': dtype 'f32', expected F64, F32, F16 or BF16"},
    {"a type of 8 bits", "{" TENSOR("a", "F8_E4M3", "[1]", "0", "1") "}", -1, 1,
     "tensor 'a': dtype 'F8_E4M3', expected F64, F32, F16 or BF16"},
    {"dtype that is a number", "{\"a\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", -1, 4,
     "tensor 'a': dtype is not a string, expected F64, F32, F16 or BF16"},

    /* shape */
    {"shape that is a number", "{" TENSOR("a", "F32", "1", "0", "4") "}", -1, 4, "tensor 'a': shape is not an array"},
    {"shape of strings", "{" TENSOR("a", "F32", "[\"1\"]", "0", "4") "}", -1, 4,
     "tensor 'a': dimension 0 of the shape is not a whole number >= 0"},
    {"shape of fractions", "{" TENSOR("a", "F32", "[1,1.5]", "0", "4") "}", -1, 4,
     "tensor 'a': dimension 1 of the shape is not a whole number >= 0"},
    {"negative shape", "{" TENSOR("a", "F32", "[-1]", "0", "4") "}", -1, 4,
     "tensor 'a': dimension 0 of the shape is not a whole number >= 0"},
    {"nine dimensions", "{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", -1, 4,
     "tensor 'a': 9 dimensions, expected at most 8"},
    {"elements that overflow", "{" TENSOR("a", "F32", "[4294967296,4294967296]", "0", "4") "}", -1, 4,
     "tensor 'a': the shape has more elements than can be counted"},
    {"elements that overflow to 0", "{" TENSOR("a", "F32", "[9223372036854775807,4]", "0", "0") "}", -1, 0,
     "tensor 'a': the shape has more elements than can be counted"},
    {"bytes that overflow", "{" TENSOR("a", "F64", "[4611686018427387904]", "0", "0") "}", -1, 0,
     "tensor 'a': the shape has more elements than can be counted"},

    /* offsets */
    {"offsets that are a number", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":4}}", -1, 4,
     "tensor 'a': data_offsets are not two whole numbers >= 0"},
    {"one offset", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4]}}", -1, 4,
     "tensor 'a': data_offsets are not two whole numbers >= 0"},
    {"three offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", -1, 4,
     "tensor 'a': data_offsets are not two whole numbers >= 0"},
    {"offsets that are strings", "{" TENSOR("a", "F32", "[1]", "\"0\"", "\"4\"") "}", -1, 4,
     "tensor 'a': data_offsets are not two whole numbers >= 0"},
    {"negative offset", "{" TENSOR("a", "F32", "[1]", "-4", "0") "}", -1, 4,
     "tensor 'a': data_offsets are not two whole numbers >= 0"},
    {"offsets that run backwards", "{" TENSOR("a", "F32", "[1]", "4", "0") "}", -1, 4,
     "tensor 'a': data_offsets end (0) before they begin (4)"},
    {"offset beyond the file", "{" TENSOR("a", "F32", "[2]", "0", "8") "}", -1, 7,
     "tensor 'a': ends at byte 8 of the data, but there are only 7: is the file truncated?"},
    {"offset of 2^63 - 1", "{" TENSOR("a", "F32", "[1]", "9223372036854775803", "9223372036854775807") "}", -1, 4,
     "tensor 'a': ends at byte 9223372036854775807 of the data, but there are only 4: is the file truncated?"},
    {"fewer bytes than the shape", "{" TENSOR("a", "F32", "[2,2]", "0", "12") "}", -1, 12,
     "tensor 'a': 12 bytes of data, expected 16 for F32 [2, 2]"},
    {"more bytes than the shape", "{" TENSOR("a", "BF16", "[]", "0", "4") "}", -1, 4,
     "tensor 'a': 4 bytes of data, expected 2 for BF16 []"},

    /* how tensors cover the data */
    {"hole at the start", "{" TENSOR("a", "F32", "[1]", "4", "8") "}", -1, 8,
     "tensor 'a' begins at byte 4 of the data, leaving a hole from byte 0"},
    {"hole in the middle", "{" TENSOR("b", "F32", "[1]", "8", "12") "," TENSOR("a", "F32", "[1]", "0", "4") "}", -1, 12,
     "tensor 'b' begins at byte 8 of the data, leaving a hole from byte 4"},
    {"data left over", "{" TENSOR("a", "F32", "[1]", "0", "4") "}", -1, 5,
     "5 bytes of data, but the tensors end at byte 4"},
    {"data without tensors", "{}", -1, 1, "1 bytes of data, but the tensors end at byte 0"},
    {"the same bytes twice", "{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("b", "F32", "[1]", "0", "4") "}", -1, 4,
     "tensor 'b' overlaps tensor 'a'"},
    {"partial overlap", "{" TENSOR("b", "F32", "[2]", "4", "12") "," TENSOR("a", "F32", "[2]", "0", "8") "}", -1, 12,
     "tensor 'b' overlaps tensor 'a'"},
    {"one within another", "{" TENSOR("a", "F32", "[3]", "0", "12") "," TENSOR("b", "F32", "[1]", "4", "8") "}", -1, 12,
     "tensor 'b' overlaps tensor 'a'"},
    {"empty one within another", "{" TENSOR("a", "F32", "[3]", "0", "12") "," TENSOR("b", "F32", "[0]", "4", "4") "}",
     -1, 12, "tensor 'b' overlaps tensor 'a'"},
};

static void test_malformed_files_are_refused_by_name(void **state)
{
    (void)state;

    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        write_file(malformed[i].header, malformed[i].length, malformed[i].data);
        assert_refused(malformed[i].what, malformed[i].message);
    }
}

static void test_what_is_no_file_is_refused(void **state)
{
    (void)state;

    unlink(path);
    assert_refused("missing", "cannot be opened: No such file or directory");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused("a folder", "is not a regular file");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused("a pipe without writer", "is not a regular file");
    unlink(path);
    write_bytes("", 0);
    assert_refused("empty", "0 bytes long, expected at least the 8 of the header's length");
    write_bytes("\1\0\0\0\0\0\0", 7);
    assert_refused("length cut short", "7 bytes long, expected at least the 8 of the header's length");
    assert_int_equal(truncate(path, 5000000000), 0);
    assert_refused("a sparse file of 5 GB", "5000000000 bytes long, expected at most 4294967296");
    write_bytes("\377\377\377\377\377\377\377\377{}", 10);
    assert_refused("length of 2^64 - 1",
                   "the header says it is 18446744073709551615 bytes long, expected at most 1000000");
}

/* a file cut anywhere is refused, whatever is cut */
static void test_truncated_files_are_refused(void **state)
{
    (void)state;
    const char *header = "{\"__metadata__\":{\"k\":\"v\"}," TENSOR("a", "F32", "[2]", "0",
                                                                   "8") "," TENSOR("b", "F64", "[1]", "8", "16") "}  ";
    size_t size = 8 + strlen(header) + 16;
    char *bytes = malloc(size);
    FILE *f;
    hb_safetensors *loaded = NULL;
    hb_error err;

    assert_non_null(bytes);
    write_file(header, -1, 16);
    f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(bytes, 1, size, f), size);
    fclose(f);
    assert_int_equal(hb_safetensors_load(&loaded, path, &err), 0);
    hb_safetensors_free(loaded);
    loaded = NULL;
    for (size_t n = 0; n < size; n++) {
        write_bytes(bytes, n);
        assert_int_equal(hb_safetensors_load(&loaded, path, &err), -EINVAL);
        assert_null(loaded);
    }
    free(bytes);
}

static void test_numbers_of_every_dtype_are_read(void **state)
{
    (void)state;
    /* 1, -2, the largest, the smallest normal, the smallest, and a third, by IEEE 754's tables */
    static const uint16_t half[] = {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x3555, 0x8000};
    static const double half_value[] = {1, -2, 65504, 0x1p-14, 0x1p-24, 0.333251953125, -0.0};
    static const uint16_t bfloat[] = {0x3f80, 0xc000, 0x7f7f, 0x0080, 0x0001, 0x3eab, 0x8000};
    static const double bfloat_value[] = {1, -2, 0x1.fep127, 0x1p-126, 0x1p-133, 0.333984375, -0.0};
    static const float single[] = {1, -2, 0x1.fffffep127f, 0x1p-126f, 0x1p-149f, 1 / 3.f, -0.f};
    static const double doubles[] = {1, -2, 1e300, 0x1p-1022, 0x1p-1074, 1 / 3., -0.};
    const hb_tensor tensor[] = {
        {.name = "half", .dtype = HB_F16, .rank = 1, .shape = {7}, .data = half},
        {.name = "bfloat", .dtype = HB_BF16, .rank = 2, .shape = {7, 1}, .data = bfloat},
        {.name = "single", .dtype = HB_F32, .rank = 3, .shape = {1, 7, 1}, .data = single},
        {.name = "double", .dtype = HB_F64, .rank = 1, .shape = {7}, .data = doubles},
    };
    hb_safetensors out = {.path = path, .ntensors = 4, .tensor = tensor}, *in = NULL;
    hb_error err;

    assert_int_equal(hb_safetensors_save(&out, &err), 0);
    assert_int_equal(hb_safetensors_load(&in, path, &err), 0);
    for (int i = 0; i < 4; i++) {
        double value[7], expected[7];
        for (int k = 0; k < 7; k++)
            expected[k] = i == 0 ? half_value[k] : i == 1 ? bfloat_value[k] : i == 2 ? single[k] : doubles[k];
        assert_int_equal(hb_safetensors_doubles(in, &in->tensor[i], value, &err), 0);
        assert_memory_equal(value, expected, sizeof value);
    }
    hb_safetensors_free(in);
}

/* of all 65536 halves, successive magnitudes grow by the spacing of their binade */
static void test_halves_are_evenly_spaced(void **state)
{
    (void)state;
    hb_error err;

    for (uint16_t h = 0; h < 0x7bff; h++) {
        uint16_t pair[] = {h, (uint16_t)(h + 1), (uint16_t)(h | 0x8000)};
        const hb_tensor t = {.name = "t", .dtype = HB_F16, .rank = 1, .shape = {3}, .data = pair};
        double value[3];

        assert_int_equal(hb_safetensors_doubles(&(hb_safetensors){.path = "f"}, &t, value, &err), 0);
        int binade = h >> 10 ? h >> 10 : 1;
        assert_true(value[1] - value[0] == pow(2, binade - 25));
        assert_true(value[2] == -value[0]);
    }
}

static void test_numbers_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    static const uint16_t half[] = {0x3c00, 0x7e00}, bfloat[] = {0xff80};
    static const float single[] = {1, 2, INFINITY};
    static const double doubles[] = {NAN};
    static const double large[] = {1, 2, 1e39};
    static const struct {
        hb_tensor t;
        const char *message;
    } cases[] = {
        {{.name = "w", .dtype = HB_F16, .rank = 1, .shape = {2}, .data = half},
         "file: tensor 'w': element 1 is NaN, expected a finite number"},
        {{.name = "w", .dtype = HB_BF16, .rank = 1, .shape = {1}, .data = bfloat},
         "file: tensor 'w': element 0 is infinite, expected a finite number"},
        {{.name = "w", .dtype = HB_F32, .rank = 1, .shape = {3}, .data = single},
         "file: tensor 'w': element 2 is infinite, expected a finite number"},
        {{.name = "w", .dtype = HB_F64, .rank = 1, .shape = {1}, .data = doubles},
         "file: tensor 'w': element 0 is NaN, expected a finite number"},
    };
    const hb_safetensors f = {.path = "file"};
    double value[3];
    hb_real real[3];
    hb_error err;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(hb_safetensors_doubles(&f, &cases[i].t, value, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].message);
        assert_int_equal(hb_safetensors_reals(&f, &cases[i].t, real, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].message);
    }

    /* finite, but not as a float */
    const hb_tensor t = {.name = "w", .dtype = HB_F64, .rank = 1, .shape = {3}, .data = large};
    assert_int_equal(hb_safetensors_doubles(&f, &t, value, &err), 0);
    assert_int_equal(hb_safetensors_reals(&f, &t, real, &err), -ERANGE);
    assert_string_equal(err.text, "file: tensor 'w': element 2 is 1e+39, too large for a 32-bit float");
}

static void test_what_is_saved_is_loaded(void **state)
{
    (void)state;
    static const float a[] = {1, 2, 3, 4, 5, 6};
    static const double b = 7;
    const hb_tensor tensor[] = {
        {.name = "a \"quoted\" ä", .dtype = HB_F32, .rank = 2, .shape = {2, 3}, .data = a},
        {.name = "empty", .dtype = HB_F32, .rank = 2, .shape = {4, 0}, .data = a},
        {.name = "scalar", .dtype = HB_F64, .rank = 0, .data = &b},
    };
    const hb_text text[] = {{"notes", "two\nlines, \\ and \"quotes\""}, {"nothing", ""}};
    hb_safetensors out = {.path = path, .ntensors = 3, .tensor = tensor, .ntexts = 2, .text = text}, *in = NULL;
    hb_error err;

    assert_int_equal(hb_safetensors_save(&out, &err), 0);
    assert_int_equal(hb_safetensors_load(&in, path, &err), 0);
    assert_int_equal(in->ntensors, 3);
    for (int i = 0; i < 3; i++) {
        const hb_tensor *t = hb_safetensors_find(in, tensor[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, tensor[i].dtype);
        assert_int_equal(t->rank, tensor[i].rank);
        assert_memory_equal(t->shape, tensor[i].shape, sizeof t->shape);
    }
    assert_memory_equal(in->tensor[0].data, a, sizeof a);
    assert_memory_equal(in->tensor[2].data, &b, sizeof b);
    assert_int_equal(in->ntexts, 2);
    assert_string_equal(hb_safetensors_text(in, "notes"), text[0].value);
    assert_string_equal(hb_safetensors_text(in, "nothing"), "");
    assert_null(hb_safetensors_text(in, "absent"));
    assert_null(hb_safetensors_find(in, "absent"));
    hb_safetensors_free(in);
    hb_safetensors_free(NULL);
}

static void test_what_cannot_be_saved_leaves_the_old_file(void **state)
{
    (void)state;
    const hb_text good[] = {{"k", "old"}}, bad[] = {{"k", "\xff"}};
    hb_safetensors out = {.path = path, .ntexts = 1, .text = good}, *in = NULL;
    hb_error err;

    assert_int_equal(hb_safetensors_save(&out, &err), 0);
    out.text = bad;
    assert_int_equal(hb_safetensors_save(&out, &err), -EINVAL);
    assert_int_equal(hb_safetensors_load(&in, path, &err), 0);
    assert_string_equal(hb_safetensors_text(in, "k"), "old");
    hb_safetensors_free(in);

    out = (hb_safetensors){.path = "/nowhere/at/all", .ntexts = 1, .text = good};
    assert_int_equal(hb_safetensors_save(&out, &err), -ENOENT);
    assert_string_equal(err.text, "/nowhere/at/all: cannot be written: No such file or directory");
}

static void test_what_would_not_load_is_not_saved(void **state)
{
    (void)state;
    static const struct {
        hb_text text;
        const char *tensor[2], *message;
    } cases[] = {
        {{"k", "\x1b[2J"}, {"a", "b"}, "metadata 'k' has control characters in it"},
        {{"", "v"}, {"a", "b"}, "a metadata key is 0 bytes long, expected 1 to 127"},
        {{"k", "v"}, {"a\n", "b"}, "a tensor name has control characters in it"},
        {{"k", "v"}, {"a", "a"}, "there are two tensors 'a'"},
    };

    unlink(path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hb_tensor tensor[] = {{.name = cases[i].tensor[0]}, {.name = cases[i].tensor[1]}};
        double number[2] = {1, 2};
        char expected[256];
        hb_error err;

        tensor[0].data = &number[0];
        tensor[1].data = &number[1];
        hb_safetensors out = {.path = path, .ntensors = 2, .tensor = tensor, .ntexts = 1, .text = &cases[i].text};
        assert_int_equal(hb_safetensors_save(&out, &err), -EINVAL);
        snprintf(expected, sizeof expected, "%s: %s", path, cases[i].message);
        assert_string_equal(err.text, expected);
        assert_int_equal(access(path, F_OK), -1);
    }
}

static void test_number_text_reads_back(void **state)
{
    (void)state;
    static const double value[] = {0, 0.1, 0.05, 1 / 3., 1e-300, -2.5e17, 0x1p-1074, 123456789.123456789};
    char text[HB_NUMBER_TEXT];

    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        assert_true(strtod(hb_number_text(value[i], text), NULL) == value[i]);
    assert_string_equal(hb_number_text(0.1, text), "0.1");
    assert_string_equal(hb_number_text(1e-3, text), "0.001");
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/file.safetensors", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails when a temporary file was left behind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed_files_are_refused_by_name),
        cmocka_unit_test(test_what_is_no_file_is_refused),
        cmocka_unit_test(test_truncated_files_are_refused),
        cmocka_unit_test(test_numbers_of_every_dtype_are_read),
        cmocka_unit_test(test_halves_are_evenly_spaced),
        cmocka_unit_test(test_numbers_that_are_not_finite_are_refused),
        cmocka_unit_test(test_what_is_saved_is_loaded),
        cmocka_unit_test(test_what_cannot_be_saved_leaves_the_old_file),
        cmocka_unit_test(test_what_would_not_load_is_not_saved),
        cmocka_unit_test(test_number_text_reads_back),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
