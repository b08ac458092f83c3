/*
 * A performance monitoring unit for the x86 processors that QEMU emulates.
 * SPDX-License-Identifier: MIT
 *
 * Declarations only, and no QEMU header: cpu.h includes this before CPUArchState, its CPUX86State, is complete.
 */
#ifndef I386_PMU_H
#define I386_PMU_H

typedef struct X86PMU X86PMU;

/* IA32_PERF_CAPABILITIES.FW_WRITE: counters take writes of their full width. */
#define PERF_CAP_FULL_WIDTH_WRITE (1 << 13)

/* Gives the processor a PMU, for good: a reset leaves it as it is. */
bool x86_pmu_create(CPUArchState *env, Error **errp);

/* CPUID leaf 0xA, the architectural PMU. */
void x86_pmu_cpuid(CPUArchState *env, uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx);

/* What a switched-on -cpu property changes of any leaf. */
void x86_pmu_extend_cpuid(CPUArchState *env, uint32_t leaf, uint32_t subleaf, uint32_t *eax, uint32_t *ebx,
                          uint32_t *ecx, uint32_t *edx);

/* An interrupt arrives. */
void x86_pmu_interrupt(CPUArchState *env);

/* From here on the processor is in user mode, or is not. */
void x86_pmu_change_mode(CPUArchState *env, bool user);

/* A register that the PMU does not have reads as 0 and takes no write, as QEMU has it for all. */
uint64_t x86_pmu_rdmsr(CPUArchState *env, uint32_t msr);
void x86_pmu_wrmsr(CPUArchState *env, uint32_t msr, uint64_t value);

/* RDPMC where it is allowed; false if there is no such counter. */
bool x86_pmu_rdpmc(CPUArchState *env);

#endif
