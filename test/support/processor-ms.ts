/** The processor's time that this process has had so far, in milliseconds: what something costs, however busy the machine is. */
export function processorMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
