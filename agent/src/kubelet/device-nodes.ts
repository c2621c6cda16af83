/** The device nodes of this node, as its kernel names them. */
export interface DeviceNodes {
  find(paths: ReadonlySet<string>): Promise<FoundNodes>
}

export interface FoundNodes {
  /** Those of the paths that the kernel names; a symbolic link has no name. */
  readonly present: ReadonlySet<string>
  /** Whether the kernel has named all its device nodes. If not, a missing path can be a node. */
  readonly complete: boolean
}
