/**
 * V8's flags for a process that keeps much and allocates little, such as the operator: it collects more often and
 * holds about half the memory, at no cost that its latencies show (bench/scale.ts). They count only from the start.
 */
export const leanFlags = ['--optimize-for-size', '--max-semi-space-size=1']

/**
 * For a process that serves many requests, each of which leaves little behind: garbage is collected before it grows large. A worker of the REST
 * service holds half the memory under load, for a few per cent more of the processor (bench/rest.ts).
 */
export const servingFlags = ['--max-semi-space-size=4']
