// Names, keys, metadata, kinds and patches of objects. Pure.

export type Brand<Name extends string> = string & { readonly __brand: Name }

export type NodeName = Brand<'NodeName'>
/** `<namespace>/<name>`. */
export type ObjectKey = Brand<'ObjectKey'>

export function objectKey(namespace: string, name: string): ObjectKey {
  return `${namespace}/${name}` as ObjectKey
}

/** The two parts of a key. The namespace of a cluster-scoped object is empty. */
export function keyParts(key: ObjectKey): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf('/')
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}

export function keyOf(object: {
  readonly metadata: { readonly namespace: string; readonly name: string }
}): ObjectKey {
  return objectKey(object.metadata.namespace, object.metadata.name)
}

export interface ObjectMeta<Name extends string> {
  readonly name: Name
  readonly namespace: string
  readonly uid: string
  /** Raised by every change of the spec. */
  readonly generation: number
  /** Changed by every write. Opaque. */
  readonly resourceVersion: string
  readonly creationTimestamp: string
  readonly deletionTimestamp?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly ownerReferences?: readonly OwnerReference[]
  readonly finalizers?: readonly string[]
}

export interface OwnerReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  readonly controller?: boolean
  readonly blockOwnerDeletion?: boolean
}

/** A kind of object of the API. */
export interface ResourceKind {
  /** Empty for the core group. */
  readonly group: string
  readonly version: string
  readonly plural: string
}

/** The parts of an owner that a reference to it names. */
export interface OwnerIdentity {
  readonly group: string
  readonly kind: string
  readonly metadata: Pick<ObjectMeta<string>, 'namespace' | 'name' | 'uid'>
}

/**
 * Whether a reference in an object means the owner. An owner counts in its own namespace only, as
 * for the garbage collector: any user can write any reference in a namespace of their own.
 * @param namespace of the object with the reference
 */
export function refersTo(
  reference: OwnerReference,
  namespace: string,
  { group, kind, metadata }: OwnerIdentity,
): boolean {
  return (
    reference.uid === metadata.uid &&
    reference.name === metadata.name &&
    namespace === metadata.namespace &&
    reference.kind === kind &&
    groupOf(reference) === group
  )
}

/** Equal for an owner and for the references that mean the owner. */
export function ownerId({ group, kind, metadata }: OwnerIdentity): string {
  // As JSON: the API server does not check the characters of a reference.
  return JSON.stringify([group, kind, metadata.namespace, metadata.name, metadata.uid])
}

/** The {@link ownerId} of the owner that a reference means. */
export function referenceId(reference: OwnerReference, namespace: string): string {
  const { kind, name, uid } = reference
  return ownerId({ group: groupOf(reference), kind, metadata: { namespace, name, uid } })
}

function groupOf({ apiVersion }: OwnerReference): string {
  return apiVersion.slice(0, Math.max(0, apiVersion.lastIndexOf('/')))
}

/** An Event about an object, for `kubectl describe`. */
export interface ObjectEvent {
  readonly regarding: {
    /** @default that of the objects of the program, such as `akri.sh/v0` */
    readonly apiVersion?: string
    readonly kind: string
    readonly key: ObjectKey
    /** Shows the Event in `kubectl describe`. @default that of the object, if it is known */
    readonly uid?: string | undefined
  }
  readonly type: 'Normal' | 'Warning'
  /** A word in CamelCase. */
  readonly reason: string
  readonly message: string
}

export type JsonPatch = readonly (
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
)[]

/** A JSON pointer (RFC 6901) from the names of its path. */
export function pointer(...names: readonly string[]): string {
  return names.map((name) => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}
