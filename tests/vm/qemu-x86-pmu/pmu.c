/*
 * A performance monitoring unit for the x86 processors that QEMU emulates.
 * SPDX-License-Identifier: MIT
 *
 * What Linux's Intel driver (architectural version 2, or 6 of which no more is there: four general and three fixed counters, global
 * control, full-width writes on demand) and its AMD driver (four counters of the K7 kind) expect, by
 * Intel's Software Developer's Manual, volume 3B, chapter "Performance Monitoring", and AMD's
 * Programmer's Manual, volume 2, section "Performance Monitoring Counters".
 *
 * Everything is derived from two exact numbers: instructions, from -icount, in which a repeated
 * string instruction is one for each turn, and branches, counted by the translated code
 * (pmu-branches.c.inc). They are brought into the counters when the privilege
 * changes, when a register is touched, and when a counter is due to overflow.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/timer.h"
#include "cpu.h"
#include "hw/boards.h"
#include "hw/i386/apic.h"
#include "system/cpu-timers.h"

#define WIDTH 48
#define MASK ((1ULL << WIDTH) - 1)
#define GENERAL 4
#define FIXED 3

/* Events differ by what an instruction adds, so that no counter can pass for another. */
#define CYCLES_PER_INSTRUCTION 3
#define REFERENCE_CYCLES_PER_INSTRUCTION 2

/* An overflow is noticed late, as in silicon: so many instructions may still retire. */
#define SKID 100

/* PERFEVTSEL, both vendors. */
#define SELECT_EVENT 0xf0000ffffULL /* event, unit mask, and AMD's upper event bits */
#define SELECT_USER (1 << 16)
#define SELECT_KERNEL (1 << 17)
#define SELECT_EDGE (1 << 18)
#define SELECT_INTERRUPT (1 << 20)
#define SELECT_NO_USER_READ (1ULL << 37)
#define SELECT_ENABLE (1 << 22)
#define SELECT_INVERT (1 << 23)
#define SELECT_COUNTER_MASK 0xff000000

/* IA32_FIXED_CTR_CTRL, four bits a counter. */
#define FIXED_KERNEL 1
#define FIXED_USER 2
#define FIXED_INTERRUPT 8
#define FIXED_NO_USER_READ (1ULL << 33)

enum {
    PERFEVTSEL0 = 0x186,
    PMC0 = 0xc1,
    FULL_WIDTH_PMC0 = 0x4c1,
    FIXED_CTR0 = 0x309,
    FIXED_CTR_CTRL = 0x38d,
    GLOBAL_STATUS = 0x38e,
    GLOBAL_CTRL = 0x38f,
    GLOBAL_OVF_CTRL = 0x390,
    V6_GENERAL0 = 0x1900, /* the same counters again, since version 6: each with its setting after it */
    V6_FIXED0 = 0x1980,
    V6_STEP = 4,
    K7_PERFEVTSEL0 = 0xc0010000,
    K7_PERFCTR0 = 0xc0010004,
};

typedef enum { NOTHING, INSTRUCTIONS, CYCLES, REFERENCE_CYCLES, BRANCHES } Event;

/*
 * What a hypervisor or an erratum does to a counter. The guest's user mode chooses with CPUID leaf FAULTS, ECX: the
 * fault in the lower 8 bits, the counter above them.
 */
enum { FAULTS = 0x50000000 };
typedef enum {
    NO_FAULT,
    STANDS_STILL,
    COUNTS_HALF,
    COUNTS_INTERRUPTS, /* each adds an instruction, in every counter */
    IS_TRAPPED,        /* each user read takes TRAP_TICKS and adds an instruction, in every counter */
    JUMPS,             /* by 2^31, at each eleventh return to user mode, out of phase with loops of reads */
    READS_ZERO,        /* in user mode */
} Fault;
#define TRAP_TICKS 2000

struct X86PMU {
    bool amd, full_width_writes;
    bool user_disable;                   /* counters can be hidden from user mode, where they read 0 */
    bool counts_interrupts;              /* as silicon does: each adds an instruction to user mode */
    bool interrupted;                    /* user mode was, and has not gone on yet */
    bool faults;                         /* the guest may choose a fault */
    Fault fault;
    int faulty;                          /* the counter that has it */
    uint64_t half;                       /* what counting half has left over */
    unsigned returns;                    /* to user mode, while the fault is JUMPS */
    bool user;                           /* the mode that the processor is in */
    int64_t instructions, branches;      /* as brought into the counters last */
    uint64_t counters[GENERAL + FIXED];  /* the general ones, then the fixed ones */
    uint64_t select[GENERAL];
    uint64_t fixed_control, global_control, global_status;
    bool overflowed;                     /* an interrupt is due, at this instruction */
    int64_t interrupt_at;
    QEMUTimer *timer;
};

/* What a counter is set to, whichever kind it is. */
typedef struct {
    Event event;
    bool counts, interrupts;
} Setting;

static Event event_of(const X86PMU *pmu, uint64_t select)
{
    if (select & (SELECT_EDGE | SELECT_INVERT | SELECT_COUNTER_MASK)) {
        return NOTHING; /* these count something else */
    }
    switch (select & SELECT_EVENT) {
    case 0x00c0:
        return INSTRUCTIONS;
    case 0x003c:
        return pmu->amd ? NOTHING : CYCLES;
    case 0x013c:
        return pmu->amd ? NOTHING : REFERENCE_CYCLES;
    case 0x00c4:
        return pmu->amd ? NOTHING : BRANCHES;
    case 0x0076:
        return pmu->amd ? CYCLES : NOTHING;
    case 0x00c2:
        return pmu->amd ? BRANCHES : NOTHING;
    default:
        return NOTHING;
    }
}

/* Counter i's bit in the global control and status registers. */
static uint64_t global_bit(int i)
{
    return i < GENERAL ? 1ULL << i : 1ULL << (32 + i - GENERAL);
}

static Setting setting_of(const X86PMU *pmu, int i)
{
    static const Event fixed_events[FIXED] = { INSTRUCTIONS, CYCLES, REFERENCE_CYCLES };
    bool enabled = pmu->amd || (pmu->global_control & global_bit(i));

    if (i < GENERAL) {
        uint64_t select = pmu->select[i];
        return (Setting) {
            .event = event_of(pmu, select),
            .counts = enabled && (select & SELECT_ENABLE) &&
                      (select & (pmu->user ? SELECT_USER : SELECT_KERNEL)),
            .interrupts = select & SELECT_INTERRUPT,
        };
    } else {
        int f = i - GENERAL;
        uint64_t control = pmu->fixed_control >> (4 * f);
        return (Setting) {
            .event = fixed_events[f],
            .counts = enabled && (control & (pmu->user ? FIXED_USER : FIXED_KERNEL)),
            .interrupts = control & FIXED_INTERRUPT,
        };
    }
}

static int counters_of(const X86PMU *pmu)
{
    return pmu->amd ? GENERAL : GENERAL + FIXED;
}

static void add(X86PMU *pmu, int i, const Setting *setting, uint64_t added)
{
    pmu->counters[i] += added;
    if (pmu->counters[i] > MASK) {
        pmu->counters[i] &= MASK;
        pmu->global_status |= global_bit(i);
        if (setting->interrupts && !pmu->overflowed) {
            pmu->overflowed = true;
            pmu->interrupt_at = pmu->instructions + SKID;
        }
    }
}

/* What counter i counts of this. */
static uint64_t with_fault(X86PMU *pmu, int i, uint64_t added)
{
    if (i == pmu->faulty && pmu->fault == STANDS_STILL) {
        return 0;
    }
    if (i == pmu->faulty && pmu->fault == COUNTS_HALF) {
        pmu->half += added;
        added = pmu->half / 2;
        pmu->half %= 2;
    }
    return added;
}

/* Brings the counters up to now. */
static void bring_up_to_now(CPUX86State *env)
{
    X86PMU *pmu = env->pmu;
    int64_t now = icount_get_raw();
    uint64_t instructions = now - pmu->instructions;
    uint64_t branches = env->branches - pmu->branches;

    pmu->instructions = now;
    pmu->branches = env->branches;
    for (int i = 0; i < counters_of(pmu); i++) {
        Setting setting = setting_of(pmu, i);
        uint64_t added = 0;

        if (!setting.counts) {
            continue;
        }
        switch (setting.event) {
        case NOTHING:
            break;
        case INSTRUCTIONS:
            added = instructions;
            break;
        case CYCLES:
            added = instructions * CYCLES_PER_INSTRUCTION;
            break;
        case REFERENCE_CYCLES:
            added = instructions * REFERENCE_CYCLES_PER_INSTRUCTION;
            break;
        case BRANCHES:
            added = branches;
            break;
        }
        add(pmu, i, &setting, with_fault(pmu, i, added));
    }
}

/* An instruction of user mode that the program does not have: the return from an interrupt, or an emulated one. */
static void count_one_more(X86PMU *pmu)
{
    for (int i = 0; i < counters_of(pmu); i++) {
        Setting setting = setting_of(pmu, i);

        if (setting.counts && setting.event == INSTRUCTIONS) {
            add(pmu, i, &setting, with_fault(pmu, i, 1));
        }
    }
}

static void jump(X86PMU *pmu)
{
    Setting setting = setting_of(pmu, pmu->faulty);

    if (setting.counts && ++pmu->returns % 11 == 0) {
        add(pmu, pmu->faulty, &setting, 1ULL << 31);
    }
}

/* The most that one instruction can add. */
static uint64_t most_per_instruction(Event event)
{
    switch (event) {
    case CYCLES:
        return CYCLES_PER_INSTRUCTION;
    case REFERENCE_CYCLES:
        return REFERENCE_CYCLES_PER_INSTRUCTION;
    default:
        return 1;
    }
}

/* Sees to it that the PMU is looked at again before it has something to do. */
static void watch(X86PMU *pmu)
{
    uint64_t soonest = UINT64_MAX;

    if (pmu->overflowed) {
        soonest = pmu->interrupt_at - MIN(pmu->instructions, pmu->interrupt_at);
    }
    for (int i = 0; i < counters_of(pmu); i++) {
        Setting setting = setting_of(pmu, i);

        if (setting.counts && setting.interrupts && setting.event != NOTHING) {
            uint64_t left = MASK + 1 - pmu->counters[i];
            soonest = MIN(soonest, DIV_ROUND_UP(left, most_per_instruction(setting.event)));
        }
    }
    if (soonest != UINT64_MAX) {
        /* An earlier look than needed does no harm, so an earlier time stays. */
        timer_mod_anticipate_ns(pmu->timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) + icount_to_ns(soonest));
    }
}

/* A timer of the virtual clock: with -icount it expires on the processor's own thread. */
static void look(void *opaque)
{
    CPUX86State *env = opaque;
    X86PMU *pmu = env->pmu;

    bring_up_to_now(env);
    if (pmu->overflowed && pmu->instructions >= pmu->interrupt_at) {
        pmu->overflowed = false;
        apic_deliver_performance_interrupt(env_archcpu(env)->apic_state);
    }
    watch(pmu);
}

bool x86_pmu_create(CPUX86State *env, Error **errp)
{
    if (!icount_enabled() || current_machine->smp.max_cpus > 1) {
        error_setg(errp, "pmu=on takes -icount, which it counts by, and one processor only");
        return false;
    }
    env->pmu = g_new0(X86PMU, 1);
    env->pmu->amd = IS_AMD_CPU(env);
    env->pmu->user_disable = env_archcpu(env)->pmu_user_disable;
    env->pmu->counts_interrupts = env_archcpu(env)->pmu_counts_interrupts;
    env->pmu->faults = env_archcpu(env)->pmu_faults;
    env->pmu->full_width_writes = env->features[FEAT_PERF_CAPABILITIES] & PERF_CAP_FULL_WIDTH_WRITE;
    env->pmu->global_control = (1 << GENERAL) - 1;
    env->pmu->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, look, env);
    return true;
}

void x86_pmu_cpuid(CPUX86State *env, uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx)
{
    *eax = *ebx = *ecx = *edx = 0;
    if (env->pmu && !env->pmu->amd) {
        /* Seven events are enumerated, and those are absent that never happen here. */
        *eax = (env->pmu->user_disable ? 6 : 2) | GENERAL << 8 | WIDTH << 16 | 7 << 24;
        *ebx = 1 << 3 | 1 << 4 | 1 << 6; /* cache references, cache misses, branch misses */
        *ecx = env->pmu->user_disable ? (1 << FIXED) - 1 : 0; /* as a bitmap, since version 5 */
        *edx = FIXED | WIDTH << 5;
    }
}

/* Of what leaf 23H says, the bit for counters that can be hidden from user mode; and the way there. */
void x86_pmu_extend_cpuid(CPUX86State *env, uint32_t leaf, uint32_t subleaf, uint32_t *eax, uint32_t *ebx,
                          uint32_t *ecx, uint32_t *edx)
{
    if (env->pmu && env->pmu->faults && leaf == FAULTS) {
        env->pmu->fault = subleaf & 0xff;
        env->pmu->faulty = (subleaf >> 8) % (GENERAL + FIXED);
        *eax = 1;
        return;
    }
    if (!env->pmu || !env->pmu->user_disable) {
        return;
    }
    switch (leaf) {
    case 0:
        *eax = MAX(*eax, 0x23);
        break;
    case 7:
        if (subleaf == 0) {
            *eax = MAX(*eax, 1);
        } else if (subleaf == 1) {
            *eax |= 1 << 8;
        }
        break;
    case 0x23:
        *eax = subleaf == 0 ? 1 << 0 : 0; /* this subleaf alone */
        *ebx = subleaf == 0 ? 1 << 2 : 0;
        *ecx = *edx = 0;
        break;
    }
}

void x86_pmu_change_mode(CPUX86State *env, bool user)
{
    if (env->pmu && env->pmu->user != user) {
        bring_up_to_now(env);
        env->pmu->user = user;
        if (user && env->pmu->interrupted) {
            env->pmu->interrupted = false;
            count_one_more(env->pmu);
        }
        if (user && env->pmu->fault == JUMPS) {
            jump(env->pmu);
        }
        watch(env->pmu);
    }
}

void x86_pmu_interrupt(CPUX86State *env)
{
    if (env->pmu) {
        if (env->pmu->fault == COUNTS_INTERRUPTS) {
            /* Another interrupt may follow before user mode goes on. */
            env->pmu->interrupted |= env->pmu->user;
        } else {
            env->pmu->interrupted = env->pmu->counts_interrupts && env->pmu->user;
        }
    }
}

/* Which of so many registers from base on this is, or -1. */
static int which(uint32_t number, uint32_t base, int count)
{
    return number >= base && number - base < count ? number - base : -1;
}

static uint64_t *amd_register(X86PMU *pmu, uint32_t msr)
{
    int i;

    if ((i = which(msr, K7_PERFEVTSEL0, GENERAL)) >= 0) {
        return &pmu->select[i];
    }
    return (i = which(msr, K7_PERFCTR0, GENERAL)) >= 0 ? &pmu->counters[i] : NULL;
}

static uint64_t *intel_register(X86PMU *pmu, uint32_t msr)
{
    int i;

    if ((i = which(msr, PERFEVTSEL0, GENERAL)) >= 0) {
        return &pmu->select[i];
    }
    if ((i = which(msr, PMC0, GENERAL)) >= 0) {
        return &pmu->counters[i];
    }
    if (pmu->full_width_writes && (i = which(msr, FULL_WIDTH_PMC0, GENERAL)) >= 0) {
        return &pmu->counters[i];
    }
    if ((i = which(msr, FIXED_CTR0, FIXED)) >= 0) {
        return &pmu->counters[GENERAL + i];
    }
    if (pmu->user_disable && (i = which(msr, V6_GENERAL0, V6_STEP * GENERAL)) >= 0) {
        return i % V6_STEP == 0 ? &pmu->counters[i / V6_STEP] :
               i % V6_STEP == 1 ? &pmu->select[i / V6_STEP] : NULL;
    }
    if (pmu->user_disable && (i = which(msr, V6_FIXED0, V6_STEP * FIXED)) >= 0) {
        return i % V6_STEP == 0 ? &pmu->counters[GENERAL + i / V6_STEP] : NULL;
    }
    switch (msr) {
    case FIXED_CTR_CTRL:
        return &pmu->fixed_control;
    case GLOBAL_STATUS:
        return &pmu->global_status;
    case GLOBAL_CTRL:
        return &pmu->global_control;
    default:
        return NULL;
    }
}

static uint64_t *register_of(X86PMU *pmu, uint32_t msr)
{
    return pmu->amd ? amd_register(pmu, msr) : intel_register(pmu, msr);
}

uint64_t x86_pmu_rdmsr(CPUX86State *env, uint32_t msr)
{
    uint64_t *found = env->pmu ? register_of(env->pmu, msr) : NULL;

    if (env->pmu && msr == MSR_IA32_PERF_CAPABILITIES) {
        return env->features[FEAT_PERF_CAPABILITIES];
    }
    if (!found) {
        return 0;
    }
    bring_up_to_now(env);
    return *found;
}

void x86_pmu_wrmsr(CPUX86State *env, uint32_t msr, uint64_t value)
{
    X86PMU *pmu = env->pmu;
    uint64_t *found = pmu ? register_of(pmu, msr) : NULL;

    if (pmu && !pmu->amd && msr == GLOBAL_OVF_CTRL) {
        bring_up_to_now(env);
        pmu->global_status &= ~value;
    } else if (found && found != &pmu->global_status) {
        bring_up_to_now(env);
        if (!pmu->amd && which(msr, PMC0, GENERAL) >= 0) {
            value = (int32_t)value; /* the old way into a counter takes 32 bits */
        }
        if (found >= pmu->counters && found < pmu->counters + ARRAY_SIZE(pmu->counters)) {
            value &= MASK;
        }
        *found = value;
        watch(pmu);
    }
}

static bool is_hidden_from_user(const X86PMU *pmu, int i)
{
    if (pmu->fault == READS_ZERO && i == pmu->faulty) {
        return true;
    }
    return pmu->user_disable && (i < GENERAL ? pmu->select[i] & SELECT_NO_USER_READ
                                             : pmu->fixed_control >> (4 * (i - GENERAL)) & FIXED_NO_USER_READ);
}

bool x86_pmu_rdpmc(CPUX86State *env)
{
    const uint32_t fixed = 1 << 30;
    uint32_t index = env->regs[R_ECX];
    uint64_t value;
    int i;

    if (!env->pmu) {
        return false;
    }
    if ((i = which(index, 0, GENERAL)) < 0) {
        if (env->pmu->amd || (i = which(index, fixed, FIXED)) < 0) {
            return false;
        }
        i += GENERAL;
    }
    bring_up_to_now(env);
    if (env->pmu->user && env->pmu->fault == IS_TRAPPED) {
        env->tsc_offset += TRAP_TICKS;
        count_one_more(env->pmu);
    }
    value = env->pmu->user && is_hidden_from_user(env->pmu, i) ? 0 : env->pmu->counters[i];
    env->regs[R_EAX] = (uint32_t)value;
    env->regs[R_EDX] = value >> 32;
    return true;
}
