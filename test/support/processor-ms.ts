/**
 * The CPU time of this process so far, in milliseconds: the cost of work, however busy the machine
 * is.
 */
export function processorMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
