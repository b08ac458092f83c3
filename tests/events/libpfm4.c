/* Prints every event of libpfm4's core PMUs, one in a line, with tabs between the fields:
 * the PMU, the event, its unit mask or nothing, config, config1, config2 (all in hexadecimal), and the descriptions. */
#include <perfmon/pfmlib_perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(const char *pmu, const char *event, const char *umask, const char *text, const char *more)
{
    char name[512];
    struct perf_event_attr attr;
    pfm_perf_encode_arg_t arg;
    memset(&attr, 0, sizeof attr);
    memset(&arg, 0, sizeof arg);
    arg.attr = &attr;
    arg.size = sizeof arg;
    snprintf(name, sizeof name, "%s::%s%s%s", pmu, event, umask ? ":" : "", umask ? umask : "");
    int result = pfm_get_os_event_encoding(name, PFM_PLM3, PFM_OS_PERF_EVENT, &arg);
    if (result == PFM_ERR_NOTSUPP) {
        /* Some of Arm's cores have the PMU's own encoding alone. Its low 16 bits are the event. */
        pfm_pmu_encode_arg_t own;
        memset(&own, 0, sizeof own);
        own.size = sizeof own;
        result = pfm_get_os_event_encoding(name, PFM_PLM3, PFM_OS_NONE, &own);
        if (result == PFM_SUCCESS) {
            attr.config = own.codes[0] & 0xffff;
            free(own.codes);
        }
    }
    if (result != PFM_SUCCESS)
        return; /* an event that needs a unit mask, or several */
    if (more && !strcmp(more, "TBD"))
        more = NULL;
    printf("%s\t%s\t%s\t%llx\t%llx\t%llx\t%s%s%s\n", pmu, event, umask ? umask : "", (unsigned long long)attr.config,
           (unsigned long long)attr.config1, (unsigned long long)attr.config2, text, more ? ": " : "", more ? more : "");
}

int main(void)
{
    setenv("LIBPFM_ENCODE_INACTIVE", "1", 1);
    if (pfm_initialize() != PFM_SUCCESS) {
        fputs("libpfm4 does not start\n", stderr);
        return 1;
    }
    for (int id = 0; id < PFM_PMU_MAX; id++) {
        pfm_pmu_info_t pmu;
        memset(&pmu, 0, sizeof pmu);
        pmu.size = sizeof pmu;
        if (pfm_get_pmu_info(id, &pmu) != PFM_SUCCESS || pmu.type != PFM_PMU_TYPE_CORE)
            continue;
        for (int at = pmu.first_event; at != -1; at = pfm_get_event_next(at)) {
            pfm_event_info_t event;
            memset(&event, 0, sizeof event);
            event.size = sizeof event;
            if (pfm_get_event_info(at, PFM_OS_PERF_EVENT, &event) != PFM_SUCCESS)
                continue;
            print(pmu.name, event.name, NULL, event.desc, NULL);
            for (int i = 0; i < event.nattrs; i++) {
                pfm_event_attr_info_t umask;
                memset(&umask, 0, sizeof umask);
                umask.size = sizeof umask;
                if (pfm_get_event_attr_info(at, i, PFM_OS_PERF_EVENT, &umask) == PFM_SUCCESS &&
                    umask.type == PFM_ATTR_UMASK)
                    print(pmu.name, event.name, umask.name, event.desc, umask.desc);
            }
        }
    }
    return 0;
}
