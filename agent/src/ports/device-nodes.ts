/** The device nodes of this node, as its kernel names them. */
export interface DeviceNodes {
  /** @returns those of the paths that the kernel names; a symbolic link has no name */
  find(paths: ReadonlySet<string>): Promise<ReadonlyMap<string, KernelDevice>>
}

/** The number of a device node. */
export interface KernelDevice {
  readonly type: 'char' | 'block'
  readonly major: number
  readonly minor: number
}
