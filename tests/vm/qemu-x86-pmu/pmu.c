/*
 * A performance monitoring unit for the x86 processors that QEMU emulates.
 * SPDX-License-Identifier: MIT
 *
 * What Linux's Intel driver (architectural version 2, or 6 of which no more is there: general and fixed counters, global
 * control, full-width writes on demand) and its AMD driver (four counters of the K7 kind, or six since family 15h) expect, by
 * Intel's Software Developer's Manual, volume 3B, chapter "Performance Monitoring", and AMD's
 * Programmer's Manual, volume 2, section "Performance Monitoring Counters".
 *
 * Everything is derived from three exact numbers: instructions, from -icount, in which a repeated
 * string instruction is one for each turn, and branches and loads, counted by the translated code
 * (pmu-events.c.inc). They are brought into the counters when the privilege
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
/* Of the machine with the most. */
#define MAX_GENERAL 8
#define MAX_FIXED 7

/* Events differ by what an instruction adds, so that no counter can pass for another. */
#define CYCLES_PER_INSTRUCTION 3
#define REFERENCE_CYCLES_PER_INSTRUCTION 2

/* An overflow is noticed late, as in silicon: so many instructions may still retire. */
#define SKID 100

/*
 * Where pipeline slots go, if the machine counts them: PMU->width in a cycle, so that the parts of a known number of
 * instructions, branches and loads are whole numbers. The front end has what the others leave.
 */
#define RETIRING_SLOTS 5    /* of an instruction */
#define BAD_SLOTS 2         /* of a branch */
#define BACK_END_SLOTS 3    /* of a load */
#define MEMORY_SLOTS 2      /* of those */
/*
 * The second level: a branch has one heavy operation, one of its bad slots is a misprediction's and one a restart's, and in one cycle of
 * each instruction the front end delivers nothing.
 */

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
    CORE_PERFEVTSEL0 = 0xc0010200, /* AMD's six counters since family 15h: each after its setting */
};

typedef enum {
    NOTHING,
    INSTRUCTIONS,
    CYCLES,
    REFERENCE_CYCLES,
    BRANCHES,
    SLOTS,
    RETIRING,
    BAD_SPECULATION,
    FRONT_END,
    BACK_END,
    MEMORY,
    DISPATCHED, /* retiring, or bad speculation */
} Event;

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
    int general, fixed;                  /* how many counters of each kind */
    uint64_t width;                      /* slots in a cycle, 0 if they are not counted */
    bool user_disable;                   /* counters can be hidden from user mode, where they read 0 */
    bool counts_interrupts;              /* as silicon does: each adds an instruction to user mode */
    bool interrupted;                    /* user mode was, and has not gone on yet */
    bool faults;                         /* the guest may choose a fault */
    Fault fault;
    int faulty;                          /* the counter that has it */
    uint64_t half;                       /* what counting half has left over */
    unsigned returns;                    /* to user mode, while the fault is JUMPS */
    bool user;                           /* the mode that the processor is in */
    int64_t instructions, branches, loads; /* as brought into the counters last */
    uint64_t counters[MAX_GENERAL + MAX_FIXED]; /* the general ones, then the fixed ones */
    uint64_t select[MAX_GENERAL];
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

/* Zen 4. */
static Event amd_slots(uint64_t select)
{
    switch (select & SELECT_EVENT) {
    case 0x00c1:
        return RETIRING;
    case 0x07aa:
        return DISPATCHED;
    case 0x1000001a0:
        return FRONT_END;
    case 0x100001ea0:
        return BACK_END;
    case 0xa2d6:
        return MEMORY; /* cycles without a retired instruction, because of a load, */
    case 0x02d6:
        return BACK_END; /* and of any instruction */
    case 0x1000000c2: /* operations of microcode, */
    case 0x00c3:      /* mispredicted branches, */
    case 0x0096:      /* and restarts */
        return BRANCHES;
    default:
        return NOTHING;
    }
}

/* P-cores since Golden Cove, and Darkmont. */
static Event intel_slots(uint64_t select)
{
    switch (select & SELECT_EVENT) {
    case 0x01a4:
        return SLOTS;
    case 0x02c2:
        return RETIRING;
    case 0x04a4:
    case 0x0073:
        return BAD_SPECULATION;
    case 0x019c:
        return FRONT_END;
    case 0x02a4:
        return BACK_END;
    case 0x10a4:
        return MEMORY;
    case 0x01c2: /* heavy operations, */
    case 0x08a4: /* and slots of mispredicted branches */
        return BRANCHES;
    default:
        return NOTHING;
    }
}

static Event event_of(const X86PMU *pmu, uint64_t select)
{
    uint64_t front_end = pmu->amd ? 0x1000001a0 : 0x019c;

    if ((select & SELECT_COUNTER_MASK) == pmu->width << 24 && (select & SELECT_EVENT) == front_end &&
        !(select & (SELECT_EDGE | SELECT_INVERT)) && pmu->width) {
        return INSTRUCTIONS; /* cycles in which the front end delivers nothing */
    }
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
        return pmu->width == 0 ? NOTHING : pmu->amd ? amd_slots(select) : intel_slots(select);
    }
}

/* Counter i's bit in the global control and status registers. */
static uint64_t global_bit(const X86PMU *pmu, int i)
{
    return i < pmu->general ? 1ULL << i : 1ULL << (32 + i - pmu->general);
}

static Setting setting_of(const X86PMU *pmu, int i)
{
    static const Event fixed_events[MAX_FIXED] = {
        INSTRUCTIONS, CYCLES, REFERENCE_CYCLES, SLOTS, BAD_SPECULATION, FRONT_END, RETIRING,
    };
    bool enabled = pmu->amd || (pmu->global_control & global_bit(pmu, i));

    if (i < pmu->general) {
        uint64_t select = pmu->select[i];
        return (Setting) {
            .event = event_of(pmu, select),
            .counts = enabled && (select & SELECT_ENABLE) &&
                      (select & (pmu->user ? SELECT_USER : SELECT_KERNEL)),
            .interrupts = select & SELECT_INTERRUPT,
        };
    } else {
        int f = i - pmu->general;
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
    return pmu->general + pmu->fixed;
}

static void add(X86PMU *pmu, int i, const Setting *setting, uint64_t added)
{
    pmu->counters[i] += added;
    if (pmu->counters[i] > MASK) {
        pmu->counters[i] &= MASK;
        pmu->global_status |= global_bit(pmu, i);
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
    uint64_t loads = env->loads - pmu->loads;
    uint64_t slots = instructions * CYCLES_PER_INSTRUCTION * pmu->width;
    uint64_t retiring = instructions * RETIRING_SLOTS;
    uint64_t bad = branches * BAD_SLOTS;
    uint64_t back_end = loads * BACK_END_SLOTS;

    pmu->instructions = now;
    pmu->branches = env->branches;
    pmu->loads = env->loads;
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
        case SLOTS:
            added = slots;
            break;
        case RETIRING:
            added = retiring;
            break;
        case BAD_SPECULATION:
            added = bad;
            break;
        case FRONT_END:
            added = slots - retiring - bad - back_end;
            break;
        case BACK_END:
            added = back_end;
            break;
        case MEMORY:
            added = loads * MEMORY_SLOTS;
            break;
        case DISPATCHED:
            added = retiring + bad;
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
static uint64_t most_per_instruction(const X86PMU *pmu, Event event)
{
    switch (event) {
    case INSTRUCTIONS:
    case BRANCHES:
        return 1;
    case CYCLES:
        return CYCLES_PER_INSTRUCTION;
    case REFERENCE_CYCLES:
        return REFERENCE_CYCLES_PER_INSTRUCTION;
    default:
        return MAX(CYCLES_PER_INSTRUCTION * pmu->width, 1);
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
            soonest = MIN(soonest, DIV_ROUND_UP(left, most_per_instruction(pmu, setting.event)));
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
    env->pmu->width = env_archcpu(env)->pmu_slots;
    env->pmu->general = MIN(env_archcpu(env)->pmu_general, MAX_GENERAL);
    env->pmu->fixed = env->pmu->amd ? 0 : MIN(env_archcpu(env)->pmu_fixed, MAX_FIXED);
    env->pmu->user_disable = env_archcpu(env)->pmu_user_disable;
    env->pmu->counts_interrupts = env_archcpu(env)->pmu_counts_interrupts;
    env->pmu->faults = env_archcpu(env)->pmu_faults;
    env->pmu->full_width_writes = env->features[FEAT_PERF_CAPABILITIES] & PERF_CAP_FULL_WIDTH_WRITE;
    env->pmu->global_control = (1 << env->pmu->general) - 1;
    env->pmu->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, look, env);
    return true;
}

void x86_pmu_cpuid(CPUX86State *env, uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx)
{
    *eax = *ebx = *ecx = *edx = 0;
    if (env->pmu && !env->pmu->amd) {
        /* Seven events are enumerated, and those are absent that never happen here. */
        *eax = (env->pmu->user_disable ? 6 : 2) | env->pmu->general << 8 | WIDTH << 16 | 7 << 24;
        *ebx = 1 << 3 | 1 << 4 | 1 << 6; /* cache references, cache misses, branch misses */
        *ecx = env->pmu->user_disable ? (1 << env->pmu->fixed) - 1 : 0; /* as a bitmap, since version 5 */
        *edx = env->pmu->fixed | WIDTH << 5;
    }
}

/* Whether there are AMD's counters since family 15h, which have registers of their own. */
static bool has_core_counters(const X86PMU *pmu)
{
    return pmu->amd && pmu->general > 4;
}

/* Of what leaf 23H says, the bit for counters that can be hidden from user mode; and the way there. */
void x86_pmu_extend_cpuid(CPUX86State *env, uint32_t leaf, uint32_t subleaf, uint32_t *eax, uint32_t *ebx,
                          uint32_t *ecx, uint32_t *edx)
{
    if (env->pmu && env->pmu->faults && leaf == FAULTS) {
        env->pmu->fault = subleaf & 0xff;
        env->pmu->faulty = (subleaf >> 8) % (env->pmu->general + MAX(env->pmu->fixed, 3));
        *eax = 1;
        return;
    }
    if (env->pmu && has_core_counters(env->pmu) && leaf == 0x80000001) {
        *ecx |= 1 << 23;
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

    if (has_core_counters(pmu) && (i = which(msr, CORE_PERFEVTSEL0, 2 * pmu->general)) >= 0) {
        return i % 2 == 0 ? &pmu->select[i / 2] : &pmu->counters[i / 2];
    }
    /* The first four, by their old numbers. */
    if ((i = which(msr, K7_PERFEVTSEL0, 4)) >= 0) {
        return &pmu->select[i];
    }
    return (i = which(msr, K7_PERFCTR0, 4)) >= 0 ? &pmu->counters[i] : NULL;
}

static uint64_t *intel_register(X86PMU *pmu, uint32_t msr)
{
    int i;

    if ((i = which(msr, PERFEVTSEL0, pmu->general)) >= 0) {
        return &pmu->select[i];
    }
    if ((i = which(msr, PMC0, pmu->general)) >= 0) {
        return &pmu->counters[i];
    }
    if (pmu->full_width_writes && (i = which(msr, FULL_WIDTH_PMC0, pmu->general)) >= 0) {
        return &pmu->counters[i];
    }
    if ((i = which(msr, FIXED_CTR0, pmu->fixed)) >= 0) {
        return &pmu->counters[pmu->general + i];
    }
    if (pmu->user_disable && (i = which(msr, V6_GENERAL0, V6_STEP * pmu->general)) >= 0) {
        return i % V6_STEP == 0 ? &pmu->counters[i / V6_STEP] :
               i % V6_STEP == 1 ? &pmu->select[i / V6_STEP] : NULL;
    }
    if (pmu->user_disable && (i = which(msr, V6_FIXED0, V6_STEP * pmu->fixed)) >= 0) {
        return i % V6_STEP == 0 ? &pmu->counters[pmu->general + i / V6_STEP] : NULL;
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
        if (!pmu->amd && which(msr, PMC0, pmu->general) >= 0) {
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
    return pmu->user_disable && (i < pmu->general ? pmu->select[i] & SELECT_NO_USER_READ
                                             : pmu->fixed_control >> (4 * (i - pmu->general)) & FIXED_NO_USER_READ);
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
    if ((i = which(index, 0, env->pmu->general)) < 0) {
        if (env->pmu->amd || (i = which(index, fixed, env->pmu->fixed)) < 0) {
            return false;
        }
        i += env->pmu->general;
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
