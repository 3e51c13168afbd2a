/**
 * The microseconds of CPU time that `work` needs in this thread. Returns the sum of user and system time, which is
 * exact. Linux only samples their split, so user time alone can be 0.
 */
export function cpuTimeOf(work: () => void): number {
  const start = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(start)
  return user + system
}
