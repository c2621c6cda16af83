import type { JsonPatch, NodeName, ObjectKey } from '@akrijs/kube'

// What a migration between the existing system and akri.js writes, and what stands in its way.

export type MigratedKind = 'Configuration' | 'Instance'

/** An object to change. */
export interface ObjectChange {
  readonly kind: MigratedKind
  readonly key: ObjectKey
  readonly uid: string
  /** The version that the plan was made for. */
  readonly resourceVersion: string
  /** What changes, for people. */
  readonly effects: readonly string[]
  /** Empty if only the owners of fields change. */
  readonly patch: JsonPatch
  /** A merge patch of the status. @default the status stays */
  readonly status?: object | null
  /** @default the owners of fields stay */
  readonly owners?: readonly FieldOwner[]
}

/** A field manager that gets fields by server-side apply. */
export interface FieldOwner {
  readonly manager: string
  readonly metadata?: object
  readonly spec: object
}

/** Something that a person has to know before the change. */
export interface Finding {
  /** Nothing is written while there is an obstacle. */
  readonly level: 'obstacle' | 'warning'
  /** The object, such as `Configuration plant/cam`. */
  readonly object: string
  readonly text: string
}

export interface MigrationPlan {
  readonly changes: readonly ObjectChange[]
  readonly findings: readonly Finding[]
}

/** A Pod of an agent or of a controller, of either system. */
export interface ProgramPod {
  readonly program: 'agent' | 'controller'
  readonly namespace: string
  readonly name: string
  readonly node: NodeName | ''
}

export function titleOf(kind: string, { namespace, name }: Omit<ProgramPod, 'program' | 'node'>) {
  return `${kind} ${namespace}/${name}`
}
