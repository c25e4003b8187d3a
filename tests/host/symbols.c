#define _GNU_SOURCE
#include "symbols.h"

#include "process.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_OBJECTS = 1024, MAX_TABLES = 2 };

struct table {
    const Elf64_Sym *symbols;
    size_t count;
    const char *names;
};

/* One ELF file in the process. */
struct object {
    uint64_t bias; /* Added to addresses in the file to have those in the process. */
    struct table tables[MAX_TABLES];
    size_t table_count;
};

struct symbols {
    struct object objects[MAX_OBJECTS];
    size_t count;
};

/* ---------------------------------------------------------------- one file */

static void add_table(struct object *object, const char *file, const Elf64_Shdr *sections, const Elf64_Shdr *section)
{
    struct table *table = &object->tables[object->table_count];

    if (object->table_count == MAX_TABLES) {
        return;
    }
    table->symbols = (const Elf64_Sym *)(file + section->sh_offset);
    table->count = section->sh_size / sizeof(Elf64_Sym);
    table->names = file + sections[section->sh_link].sh_offset;
    object->table_count++;
}

/* Files that can't be read (the vdso has none) are passed over: their symbols are then not found. */
static void add_object(struct symbols *symbols, const char *path, uint64_t bias)
{
    struct object *object = &symbols->objects[symbols->count];
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    const Elf64_Ehdr *header;
    const Elf64_Shdr *sections;
    struct stat status;
    char *file;

    if (descriptor < 0 || symbols->count == MAX_OBJECTS) {
        return;
    }
    file = fstat(descriptor, &status) == 0
               ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0)
               : MAP_FAILED;
    close(descriptor);
    if (file == MAP_FAILED) {
        return;
    }
    header = (const Elf64_Ehdr *)file;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) {
        munmap(file, (size_t)status.st_size);
        return;
    }
    sections = (const Elf64_Shdr *)(file + header->e_shoff);
    object->bias = bias;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type == SHT_DYNSYM || sections[i].sh_type == SHT_SYMTAB) {
            add_table(object, file, sections, &sections[i]);
        }
    }
    symbols->count++;
}

/* ---------------------------------------------------------------- the process's list of files */

static int auxiliary_value(pid_t pid, uint64_t type, uint64_t *value)
{
    char path[64];
    Elf64_auxv_t entry;
    int found = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/auxv", (int)pid);
    file = fopen(path, "rb");
    if (file == NULL) {
        return 0;
    }
    while (!found && fread(&entry, sizeof entry, 1, file) == 1) {
        if (entry.a_type == type) {
            *value = entry.a_un.a_val;
            found = 1;
        }
    }
    fclose(file);
    return found;
}

/* Reads the executable's program headers: its load bias, and where its dynamic section is (0: it has none). */
static int read_headers(pid_t pid, uint64_t *bias, uint64_t *dynamic)
{
    uint64_t address, count;
    Elf64_Phdr header;

    if (!auxiliary_value(pid, AT_PHDR, &address) || !auxiliary_value(pid, AT_PHNUM, &count)) {
        return 0;
    }
    *bias = *dynamic = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!process_read(pid, address + i * sizeof header, &header, sizeof header)) {
            return 0;
        }
        if (header.p_type == PT_PHDR) {
            *bias = address - header.p_vaddr;
        } else if (header.p_type == PT_DYNAMIC) {
            *dynamic = header.p_vaddr;
        }
    }
    if (*dynamic != 0) {
        *dynamic += *bias;
    }
    return 1;
}

/* Answers the address of the dynamic linker's list of files, 0 when there is none (a static executable). */
static uint64_t first_link(pid_t pid, uint64_t dynamic)
{
    struct r_debug debug;
    Elf64_Dyn entry;

    do {
        if (dynamic == 0 || !process_read(pid, dynamic, &entry, sizeof entry)) {
            return 0;
        }
        dynamic += sizeof entry;
    } while (entry.d_tag != DT_NULL && entry.d_tag != DT_DEBUG);
    if (entry.d_tag == DT_NULL || !process_read(pid, entry.d_un.d_ptr, &debug, sizeof debug)) {
        return 0;
    }
    return (uint64_t)debug.r_map;
}

static void read_string(pid_t pid, uint64_t address, char *text, size_t size)
{
    size_t length = 0;

    while (length + 1 < size && process_read(pid, address + length, &text[length], 1) && text[length] != '\0') {
        length++;
    }
    text[length] = '\0';
}

struct symbols *symbols_load(pid_t pid)
{
    struct symbols *symbols = calloc(1, sizeof *symbols);
    char path[PATH_MAX];
    uint64_t bias, dynamic, link;
    struct link_map entry;

    if (symbols == NULL || !read_headers(pid, &bias, &dynamic)) {
        fprintf(stderr, "cannot read the program headers of process %d\n", (int)pid);
        free(symbols);
        return NULL;
    }
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    add_object(symbols, path, bias);
    link = first_link(pid, dynamic);
    while (link != 0 && process_read(pid, link, &entry, sizeof entry)) {
        int length = snprintf(path, sizeof path, "/proc/%d/root", (int)pid); /* It may see other files than we do. */

        read_string(pid, (uint64_t)entry.l_name, path + length, sizeof path - (size_t)length);
        if (path[length] != '\0') { /* The executable itself has no name here. */
            add_object(symbols, path, entry.l_addr);
        }
        link = (uint64_t)entry.l_next;
    }
    return symbols;
}

/* ---------------------------------------------------------------- look-ups */

static int is_wanted(const Elf64_Sym *symbol, enum symbol_kind kind)
{
    int type = ELF64_ST_TYPE(symbol->st_info);
    int is_function = type == STT_FUNC || type == STT_GNU_IFUNC;

    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL && type != STT_TLS
           && is_function == (kind == FUNCTION);
}

int symbols_find(const struct symbols *symbols, enum symbol_kind kind, const char *name, uint64_t *address,
                 uint64_t *size)
{
    for (size_t i = 0; i < symbols->count; i++) {
        const struct object *object = &symbols->objects[i];

        for (size_t j = 0; j < object->table_count; j++) {
            const struct table *table = &object->tables[j];

            for (size_t k = 0; k < table->count; k++) {
                const Elf64_Sym *symbol = &table->symbols[k];

                if (is_wanted(symbol, kind) && strcmp(table->names + symbol->st_name, name) == 0) {
                    *address = object->bias + symbol->st_value;
                    if (size != NULL) {
                        *size = symbol->st_size;
                    }
                    return 1;
                }
            }
        }
    }
    return 0;
}
