"""Writes the source of a library that resembles an MPI: its functions write down their arguments, and block."""

from __future__ import annotations

from random import Random
from string import Template

FUNCTIONS = {
    "MPI_Send": ("p:buf", "i:count", "h:datatype", "i:dest", "i:tag", "h:comm"),
    "MPI_Recv": ("p:buf", "i:count", "h:datatype", "i:source", "i:tag", "h:comm", "p:status"),
    "MPI_Bcast": ("p:buffer", "i:count", "h:datatype", "i:root", "h:comm"),
    "MPI_Reduce": ("p:sendbuf", "p:recvbuf", "i:count", "h:datatype", "h:op", "i:root", "h:comm"),
    "MPI_Probe": ("i:source", "i:tag", "h:comm", "p:status"),
    "MPI_Waitall": ("i:count", "p:array_of_requests", "p:array_of_statuses"),
    "MPI_Barrier": ("h:comm",),
    "MPI_Sendrecv": (
        *("p:sendbuf", "i:sendcount", "h:sendtype", "i:dest", "i:sendtag", "p:recvbuf", "i:recvcount", "h:recvtype"),
        *("i:source", "i:recvtag", "h:comm", "p:status"),
    ),
}
"""Their parameters: p a pointer, i an int, h a handle, which is a pointer here, as in Open MPI."""
TYPES = {"p": "void *", "i": "int ", "h": "void *"}

HEAD = """
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <poll.h>
#include <alloca.h>
volatile long truth[16];
volatile int spin;
static volatile int again;
int ompi_mpi_comm_world[4];
int PMPI_Init(int *c, char ***v) { (void)c; (void)v; return 0; }
int MPI_Init(int *c, char ***v) { return PMPI_Init(c, v); }
struct pack { long a; int b; void *c; int d; long e; };
__attribute__((noinline)) static void write_through(struct pack *p) { p->b += 3; p->d ^= 5; p->a = p->d; }
__attribute__((noinline)) static int helper(int a, long b) { return a * 3 + (int)(b >> 3); }
__attribute__((noinline)) static int sum(const int *p, int n) { int s = 0; while (n-- > 0) s += *p++; return s; }
"""

BLOCKS = (
    'char c; (void)!write(1, "r", 1); (void)!read(0, &c, 1); return c;',
    'char c = 0; struct pollfd f = {0, POLLIN, 0}; (void)!write(1, "r", 1); while (poll(&f, 1, 5) < 1) spin++; '
    "(void)!read(0, &c, 1); return c;",
    'char c = 0; struct pollfd f = {0, POLLIN, 0}; (void)!write(1, "r", 1); '
    "do { for (int i = 0; i < 2000; i++) spin += i; } while (poll(&f, 1, 0) < 1); (void)!read(0, &c, 1); return c;",
)


USES = (
    "if ($word < -77) return $word;",
    "int o_$word = $word; spin += o_$word;",
    "struct pack s_$word = {1, $word, 0, 2, 3}; write_through(&s_$word); spin += s_$word.b;",
    "int t_$word[5]; for (int i = 4; i >= 0; i--) t_$word[i] = $word + i; spin += sum(t_$word, 5);",
    """switch ($word & 7) {
        case 0: spin++; break;
        case 1: spin += helper(2, 3); break;
        case 2: spin--; break;
        case 3: spin ^= 4; break;
        case 5: spin *= 3; break;
        case 6: spin = helper($word, 3);
    }""",
    "$word = $word + 1;",
    "spin += helper($word, 7);",
    "char *v_$word = alloca(($word & 31) + 1); memset(v_$word, 1, $word & 31); spin += v_$word[0];",
)
"""What functions do with a parameter."""


def library(random: Random) -> str:
    """Return the source in C of a library."""
    lines = [HEAD]
    for number, body in enumerate(BLOCKS):
        lines.append(f"__attribute__((noinline)) static int block{number}(void) {{ {body} }}")
    for name, parameters in FUNCTIONS.items():
        declared = [(TYPES[kind], word) for kind, word in (each.split(":") for each in parameters)]
        inner = _layers(random, name.lower(), declared)
        lines += inner[0]
        truth = " ".join(f"truth[{n}] = (long){word};" for n, (_, word) in enumerate(declared))
        arguments = ", ".join(f"{kind}{word}" for kind, word in declared)
        lines.append(f"int P{name}({arguments}) {{ {truth} {inner[1]} }}")
        lines.append(f'int {name}({arguments}) __attribute__((weak, alias("P{name}")));')
    return "\n".join(lines)


def _layers(random: Random, name: str, declared: list[tuple[str, str]]) -> tuple[list[str], str]:
    """Return functions that call one another, and the body of the one that calls the outermost of them."""
    lines: list[str] = []
    call = f"block{random.randrange(len(BLOCKS))}()"
    known: list[tuple[str, str]] = []
    for level in range(random.randrange(4)):
        parameters = random.sample(declared, random.randint(0, len(declared)))
        missing = [each for each in known if each not in parameters]
        parameters = [*parameters, *missing]
        random.shuffle(parameters)
        inside = f"{name}_{level}"
        body = _body(random, parameters, call)
        listed = ", ".join(f"{kind}{word}" for kind, word in parameters) or "void"
        lines.append(f"__attribute__((noinline)) static int {inside}({listed}) {{ {body} }}")
        if random.random() < 0.2:
            lines.append(f"static int (*volatile p_{inside})({listed}) = {inside};")
            inside = f"p_{inside}"
        call, known = f"{inside}({', '.join(word for _, word in parameters)})", parameters
    return lines, _body(random, declared, call)


def _body(random: Random, parameters: list[tuple[str, str]], call: str) -> str:
    """Return statements that use parameters, change them, and make a call."""
    ints = [word for kind, word in parameters if kind == "int "]
    pointers = [word for kind, word in parameters if kind != "int "]
    before, after = [], []
    for word in random.sample(ints, min(len(ints), random.randrange(3))):
        uses = [each for each in USES if "$word = $word" not in each or word not in call]
        before.append(Template(random.choice(uses)).substitute(word=word))
        if random.random() < 0.5:
            after.append(f"spin += {word};")
    for word in random.sample(pointers, min(len(pointers), random.randrange(2))):
        if random.random() < 0.5:
            after.append(f"spin += (int)(long){word};")
    if random.random() < 0.25:
        return f"{' '.join(before)} return {call};"
    # Not for as long as r is negative: it depends on how long a call has spun.
    again = f"do {{ r += {call}; }} while (again);" if random.random() < 0.3 else f"r += {call};"
    return f"{' '.join(before)} int r = 0; {again} {' '.join(after)} return r + spin;"
