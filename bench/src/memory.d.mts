export type Memory = Readonly<Record<'resident' | 'proportional' | 'unshared' | 'dirty', number>>
export function memoryOf(pid: number | undefined): Memory
