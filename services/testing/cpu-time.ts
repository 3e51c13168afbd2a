/**
 * The microseconds of CPU time that `work` needs in this thread. The sum of user and system time is exact; Linux
 * samples their split, so that user time alone can be 0.
 */
export function cpuTimeOf(work: () => void): number {
  const start = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(start)
  return user + system
}
