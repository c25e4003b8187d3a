"""Writes the source of programs that call such a library, with arguments from wherever a program may have them."""

from __future__ import annotations

from random import Random
from string import Template

from tests.support.random_programs.library import FUNCTIONS, TYPES

HEAD = """
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <setjmp.h>
#ifdef __cplusplus
#include <vector>
extern "C" {
#endif
struct pack { long a; int b; void *c; int d; long e; };
struct outer { int before[3]; struct pack inside; int behind; };
int opaque(int x);
long opaque_long(long x);
void change(struct pack *p, int by);
void change_around(struct pack *p, int by);
void fill(int *p, int n, int by);
void *pointer(int x);
void set(int *p, int to);
int sum_of(int n, ...);
int may_throw(int x);
#ifdef __cplusplus
}
#define CAST(x) ((char *)(x))
#else
#define CAST(x) (x)
#endif
int g_int = 4242;
long g_long = 77;
int g_table[16] = {5, 3, 8, 1, 9, 2, 7, 4, 6, 0, 11, 13, 17, 19, 23, 29};
static volatile int v_int = 31;
struct pack g_pack = {1, 2, 0, 4, 5};
jmp_buf g_jump;
volatile int sink;
"""

HELPERS = """
#include <stdarg.h>
#include <stddef.h>
struct pack { long a; int b; void *c; int d; long e; };
struct outer { int before[3]; struct pack inside; int behind; };
static volatile int noise = 3;
int opaque(int x) { return x * 7 + noise; }
long opaque_long(long x) { return x * 5 - noise; }
void change(struct pack *p, int by) { p->b += by; p->d = p->b ^ 21; p->c = p; p->a -= by; }
void change_around(struct pack *p, int by) {
    struct outer *o = (struct outer *)((char *)p - offsetof(struct outer, inside));
    o->before[0] = by; o->before[2] += by; o->behind = by * 3; p->b++;
}
void fill(int *p, int n, int by) { for (int i = 0; i < n; i++) p[i] = by + i * 3; }
void *pointer(int x) { return (void *)(0x1000L + x * 16L); }
void set(int *p, int to) { *p = to; }
int sum_of(int n, ...) {
    va_list v; int s = 0;
    va_start(v, n); while (n-- > 0) s += va_arg(v, int); va_end(v);
    return s;
}
int may_throw(int x) { return x + noise; }
"""

THROWER = """
extern "C" int may_throw(int x) { static volatile int noise = 3; if (x % 3 == 0) throw x; return x + noise; }
"""


STATEMENTS = (
    "int $new = opaque($a);",
    "int $new = $a * $number + $b;",
    "int $new = $a; if ($b > $number) $new = opaque($b); else $new += 2;",
    """int $new = 0;
    switch ($a & 7) {
        case 0: $new = $b; break;
        case 1: $new = opaque(3); break;
        case 2: $new = 9; break;
        case 3: $new = $b * 5; break;
        case 4: $new = g_int; break;
        case 6: $new = 1;
    }""",
    "int $new = 0; for (int $i = 0; $i < ($a & 7) + 2; $i++) $new += opaque($i) ^ $b;",
    "int $new = 1; for (int $i = 9; $i > 0; $i -= 2) { $new = $new * 3 + $i; sink += $new; }",
    "struct pack $s = {$a, $b, 0, $number, 1}; change(&$s, $number); int $new = $s.b + $s.d;",
    """struct outer $s; memset(&$s, 1, sizeof $s); $s.before[0] = $a;
    change_around(&$s.inside, $number);
    int $new = $s.before[0] + $s.before[2] + $s.behind;""",
    """int $t[12]; for (int $i = 11; $i >= 0; $i--) $t[$i] = $a + $i;
    fill($t + 2, 4, $b);
    int $new = $t[$b & 7] + $t[11];""",
    """int $t[6]; int *$s = $t + 6; while ($s != $t) *--$s = $a + $number;
    fill($t, 3, $b);
    int $new = $t[4] ^ $t[1];""",
    "int $new = $a; set(&$new, $b + $number);",
    "int $new = sum_of(4, $a, $b, $number, 8);",
    "volatile int $s = $a; int $new = $s + $number;",
    """volatile int $s = 0, $t = $a;
    if (setjmp(g_jump) == 0) { $t = $b; $s = 1; if ($number & 1) longjmp(g_jump, 1); }
    int $new = $t + $s;""",
    "struct pack *$s = (struct pack *)malloc(sizeof *$s); $s->b = $a; change($s, $b); int $new = $s->b;",
    "struct pack $s = g_pack, $t = $s; $t.d += $a; change(&$s, $number); int $new = $s.b + $t.d;",
    "unsigned $s = (unsigned)$a; int $new = (int)($s % 37u) + (signed char)$b;",
    "long long $s = (long long)$a * $b; int $new = (int)($s >> 3);",
)
"""Each declares an int."""
STATEMENTS_IN_C = (
    "char $t[($a & 15) + 8]; memset($t, $number, sizeof $t); sink += $t[3]; int $new = $b - (int)sizeof $t;",
)
STATEMENTS_IN_CPP = (
    "int $new = 0; try { $new = may_throw($a); } catch (int $s) { $new = $s + $number; }",
    "std::vector<int> $t(($a & 3) + 3, $b); $t.push_back(may_throw(4)); int $new = $t.back() + $t[1];",
)


class Unit:
    """Writes the functions of one program."""

    def __init__(self, random: Random, name: str, *, is_cpp: bool) -> None:
        """Start."""
        self._random = random
        self._name = name
        self._is_cpp = is_cpp
        self._lines: list[str] = []
        self._names = 0

    def write(self) -> str:
        """Return the functions; the one that has the unit's name takes one int."""
        random = self._random
        function = random.choice(list(FUNCTIONS))
        call = self._caller(function)
        for _ in range(random.randrange(3)):
            call = self._wrapper(*call)
        name, parameters = call
        arguments = ", ".join(self._outermost(kind) for kind, _ in parameters)
        ints = self._statements(random.randrange(3), ["seed"])
        self._lines.append(f"int {self._name}(int seed) {{ {ints} return {name}({arguments}); }}")
        return "\n".join(self._lines)

    def _new(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _outermost(self, kind: str) -> str:
        random = self._random
        if kind == "i":
            return random.choice(
                ("seed", "seed + 3", "opaque(seed)", "g_int", "v_int", str(random.randrange(-5, 90000)))
            )
        return random.choice(("pointer(seed)", "(void *)&g_table[seed & 7]", "(void *)&g_pack", "(void *)(long)seed"))

    def _caller(self, function: str) -> tuple[str, list[tuple[str, str]]]:
        """Write the function that makes the call; return its name and parameters."""
        random = self._random
        wanted = [each.split(":") for each in FUNCTIONS[function]]
        parameters = [(kind, f"q{n}") for n, kind in enumerate(random.choices("iip", k=random.randrange(9)))]
        ints = [name for kind, name in parameters if kind == "i"]
        pointers = [name for kind, name in parameters if kind == "p"]
        statements = self._statements(random.randrange(6), ints)
        found = [f"n{n}" for n in range(1, self._names + 1) if f"int n{n} " in statements]
        arguments = []
        for kind, _ in wanted:
            if kind == "i":
                arguments.append(self._int([*ints, *found]))
            else:
                arguments.append(self._pointer(pointers))
        call = self._call(function, wanted, arguments)
        name = f"{self._name}_call"
        use = "".join(f" sink += {each};" for each in random.sample(ints + found, min(len(ints + found), 2)))
        tail = (
            f"return {call};"
            if random.random() < 0.3
            else f"int r = {call};{use if random.random() < 0.7 else ''} return r;"
        )
        return self._function(name, parameters, f"{statements} {tail}")

    def _call(self, function: str, wanted: list[list[str]], arguments: list[str]) -> str:
        how = self._random.random()
        if how < 0.1:
            types = ", ".join(TYPES[kind].strip() for kind, _ in wanted)
            pointer = f"{self._name}_p"
            self._lines.append(f"static int (*volatile {pointer})({types}) = {function};")
            return f"{pointer}({', '.join(arguments)})"
        if how < 0.2:
            listed = ", ".join(f"{TYPES[kind]}{word}" for kind, word in wanted)
            order = ", ".join(word for _, word in wanted)
            self._lines.append(
                f"__attribute__((noinline)) static int {self._name}_jump({listed}) {{ return {function}({order}); }}"
            )
            return f"{self._name}_jump({', '.join(arguments)})"
        return f"{function}({', '.join(arguments)})"

    def _function(self, name: str, parameters: list[tuple[str, str]], body: str) -> tuple[str, list[tuple[str, str]]]:
        listed = ", ".join(f"{TYPES[kind]}{word}" for kind, word in parameters) or "void"
        inline = self._random.choice(("", "__attribute__((noinline)) ", "__attribute__((noinline)) "))
        self._lines.append(f"{inline}static int {name}({listed}) {{ {body} }}")
        return name, parameters

    def _wrapper(self, name: str, parameters: list[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
        """Write a function that calls another one, and passes some of its own arguments on."""
        random = self._random
        own = [(kind, f"w{n}") for n, (kind, _) in enumerate(parameters)] + [("i", "w_more")]
        random.shuffle(own)
        ints = [word for kind, word in own if kind == "i"]
        pointers = [word for kind, word in own if kind == "p"]
        statements = self._statements(random.randrange(3), ints)
        arguments = ", ".join(
            self._int(ints) if kind == "i" else random.choice([*pointers, "(void *)&g_pack"]) for kind, _ in parameters
        )
        tail = (
            f"return {name}({arguments});"
            if random.random() < 0.4
            else f"int r = {name}({arguments}); return r + v_int;"
        )
        return self._function(f"{name}w", own, f"{statements} {tail}")

    def _int(self, ints: list[str]) -> str:
        random = self._random

        def some() -> str:
            return random.choice(ints) if ints and random.random() < 0.8 else str(random.randrange(-9, 999))

        return random.choice(
            (
                some(),
                some(),
                some(),
                some(),
                f"{some()} + {random.randrange(1, 9)}",
                f"{some()} * {random.randrange(2, 9)}",
                f"({some()} & 15) << 2",
                f"({some()} < {some()} ? {some()} : {some()})",
                f"({some()} - {some()}) / 3",
                f"g_table[{some()} & 15]",
                "g_int",
                "g_pack.d",
                "v_int",
                f"opaque({some()})",
                f"(int)opaque_long({some()})",
                f"sum_of(3, {some()}, {some()}, 4)",
                str(random.randrange(-9, 100000)),
            )
        )

    def _pointer(self, pointers: list[str]) -> str:
        globals_ = ("&g_pack", "g_table", "0", "&g_int")
        return self._random.choice([*pointers, *pointers, "pointer(5)", *(f"(void *){each}" for each in globals_)])

    def _statements(self, count: int, ints: list[str]) -> str:
        """Return statements, some of which declare an int ``n`` and a number."""
        random = self._random
        found = list(ints)
        lines = []
        for _ in range(count):
            new = self._new("n")
            a, b = (random.choice(found) if found else str(random.randrange(50)) for _ in range(2))
            number = random.randrange(1, 40)
            t, s, i = self._new("t"), self._new("s"), self._new("i")
            choices = (*STATEMENTS, *(STATEMENTS_IN_CPP * 2 if self._is_cpp else STATEMENTS_IN_C))
            line = Template(random.choice(choices))
            lines.append(line.substitute(new=new, a=a, b=b, number=number, t=t, s=s, i=i))
            found.append(new)
            ints.append(new)
        return " ".join(lines)


def program(random: Random, units: int, *, is_cpp: bool) -> str:
    """Return the source of a program of several units, which run one after another."""
    lines = [HEAD]
    external = 'extern "C" ' if is_cpp else ""
    for name, parameters in FUNCTIONS.items():
        lines.append(f"{external}int {name}({', '.join(TYPES[each[0]].strip() for each in parameters)});")
    for number in range(units):
        lines.append(Unit(random, f"u{number}", is_cpp=is_cpp).write())
    calls = " ".join(f"sink += u{number}(argc * {random.randrange(1, 60)});" for number in range(units))
    lines.append(f"int main(int argc, char **argv) {{ (void)argv; {calls} return 0; }}")
    return "\n".join(lines)
