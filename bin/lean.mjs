/**
 * V8's flags for a process that keeps much and allocates little, such as the operator: it collects more often and
 * holds about half the memory, at no cost that its latencies show (bench/scale.ts). They count only from the start.
 */
export const leanFlags = ['--optimize-for-size', '--max-semi-space-size=1']
