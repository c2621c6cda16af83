import { isRecord, isSecretName, MASK, nearest, shorten } from '@akrijs/runtime'
import type { Problem } from '../configuration-schema.js'
import {
  type FieldType,
  fieldType,
  type KubernetesTypes,
  type Root,
  type Scalar,
} from './kubernetes-types.js'

interface CheckOptions {
  readonly types: KubernetesTypes
  readonly root: Root
  /** The path of the value, such as `spec.brokerSpec.brokerPodSpec`. */
  readonly path: string
  /** Required fields of the root that akri.js fills in. @default none */
  readonly filledIn?: readonly string[]
  /** The most problems. */
  readonly limit: number
}

/** A problem of a value. */
export interface TypeProblem extends Problem {
  /** Set if the types have no field of this name there: a newer Kubernetes may have it. */
  readonly isUnknownField?: true
}

/**
 * Finds fields that Kubernetes does not know or that are misplaced, and values of a wrong type.
 * The meaning of values is not checked. As in the API server, null counts as absent. The value must
 * not be nested deeper than the stack allows.
 */
export function checkType(
  value: unknown,
  { types, root, path, filledIn = [], limit }: CheckOptions,
): TypeProblem[] {
  const check = new TypeCheck(types, limit)
  check.value(value, types.roots[root], { path, parents: [] }, filledIn)
  return check.problems
}

type ObjectType = FieldType & { readonly kind: 'object' }
type Fields = Readonly<Record<string, string>>

interface Place {
  readonly path: string
  /** Whether a message must not have the value. @default false */
  readonly isSecret?: boolean
  /** The objects that contain the value, the nearest first. */
  readonly parents: readonly { readonly path: string; readonly fields: Fields }[]
}

class TypeCheck {
  readonly problems: TypeProblem[] = []
  readonly #types: KubernetesTypes
  readonly #limit: number

  constructor(types: KubernetesTypes, limit: number) {
    this.#types = types
    this.#limit = limit
  }

  value(value: unknown, text: string, place: Place, filledIn: readonly string[] = []): void {
    if (value === null || this.problems.length >= this.#limit) return
    const type = fieldType(text, this.#types)
    if (type.kind === 'scalar') this.#scalar(value, type.scalar, place)
    else if (type.kind === 'list') this.#list(value, type.of, place)
    else if (type.kind === 'map') this.#map(value, type.of, place)
    else this.#object(value, type, place, filledIn)
  }

  #scalar(value: unknown, scalar: Scalar, { path, isSecret }: Place): void {
    const right = RULES[scalar](value)
    if (right !== undefined)
      this.#refuse(path, `write ${right}; it is ${isSecret ? MASK : shorten(value)}`)
  }

  #list(value: unknown, of: string, { path, parents }: Place): void {
    const inner = fieldType(of, this.#types)
    if (!Array.isArray(value))
      this.#refuse(path, `write a list of ${plural(inner)}; it is ${shorten(value)}`)
    else {
      for (const [index, item] of value.entries()) {
        const at = `${path}[${index}]`
        // Kubernetes reads null as an item without fields, which is never intended.
        if (item === null)
          this.#refuse(at, `it is null; write ${singular(inner)}, or leave the item out`)
        else this.value(item, of, { path: at, parents })
        if (this.problems.length >= this.#limit) return
      }
    }
  }

  #map(value: unknown, of: string, { path, parents }: Place): void {
    if (!isRecord(value))
      this.#refuse(
        path,
        `write a mapping of names to ${plural(fieldType(of, this.#types))}; it is ` +
          `${shorten(value)}`,
      )
    else {
      for (const key in value) {
        this.value(value[key], of, {
          path: inside(path, key),
          parents,
          isSecret: isSecretName(key),
        })
        if (this.problems.length >= this.#limit) return
      }
    }
  }

  #object(
    value: unknown,
    { fields, required }: ObjectType,
    { path, parents }: Place,
    filledIn: readonly string[],
  ): void {
    if (!isRecord(value))
      this.#refuse(
        path,
        `write a mapping with fields such as ${required[0] ?? Object.keys(fields)[0]}; it ` +
          `is ${shorten(value)}`,
      )
    else {
      const around = [{ path, fields }, ...parents]
      // A variable: `{ name: PASSWORD, value: … }`.
      const isSecret = (key: string) =>
        key === 'value' && typeof value.name === 'string' && isSecretName(value.name)
      for (const key in value) {
        const at = inside(path, key)
        const type = Object.hasOwn(fields, key) ? fields[key] : undefined
        if (type !== undefined)
          this.value(value[key], type, { path: at, parents: around, isSecret: isSecret(key) })
        else
          this.problems.push({
            path: at,
            message: `there is no such field${this.#hint(key, fields, parents)}`,
            isUnknownField: true,
          })
        if (this.problems.length >= this.#limit) return
      }
      for (const key of required) {
        if (filledIn.includes(key) || (Object.hasOwn(value, key) && value[key] !== null)) continue
        const type = fieldType(fields[key] ?? 'any', this.#types)
        // Kubernetes reads a missing scalar as 0 or empty, and values are not checked here.
        if (type.kind !== 'scalar')
          this.#refuse(inside(path, key), `it is missing; write ${singular(type)}`)
      }
    }
  }

  /** The place where the field would be right, or the field that the author most likely means. */
  #hint(key: string, fields: Fields, parents: Place['parents']): string {
    const names = Object.keys(fields)
    const misspelt = nearest(key, names, 1)
    if (misspelt !== undefined) return `; did you mean ${misspelt}?`
    const place =
      parents.find((parent) => Object.hasOwn(parent.fields, key))?.path ?? this.#below(key, fields)
    if (place !== undefined) return ` at this place; it belongs to ${place}`
    const similar = nearest(key, names)
    return similar === undefined
      ? ` in Kubernetes ${this.#types.version}`
      : `; did you mean ${similar}?`
  }

  /** The nearest place below the object that has the field, such as `template.spec`. */
  #below(key: string, fields: Fields): string | undefined {
    let level = [{ path: '', fields }]
    for (let depth = 0; depth < MAX_HINT_DEPTH; depth++) {
      const next: typeof level = []
      for (const { path, fields } of level) {
        for (const [name, text] of Object.entries(fields)) {
          const type = fieldType(text, this.#types)
          const inner = type.kind === 'list' ? fieldType(type.of, this.#types) : type
          if (inner.kind !== 'object') continue
          const at = `${inside(path, name)}${type.kind === 'list' ? '[]' : ''}`
          if (Object.hasOwn(inner.fields, key)) return at
          next.push({ path: at, fields: inner.fields })
        }
      }
      level = next
    }
    return undefined
  }

  #refuse(path: string, message: string): void {
    this.problems.push({ path, message })
  }
}

/** The deepest search: a field of the same name below has another meaning. */
const MAX_HINT_DEPTH = 3

/** For each scalar: the text that says what is right, if a value is wrong. */
const RULES: Readonly<Record<Scalar, (value: unknown) => string | undefined>> = {
  any: () => undefined,
  string: (value) =>
    typeof value === 'string' ? undefined : 'a text (in quotes, if it looks like something else)',
  boolean: (value) => (typeof value === 'boolean' ? undefined : 'true or false, without quotes'),
  number: (value) => (typeof value === 'number' ? undefined : 'a number, without quotes'),
  int32: (value) =>
    isWhole(value, 2 ** 31) ? undefined : 'a whole number of 32 bits, without quotes',
  int64: (value) => (isWhole(value, 2 ** 63) ? undefined : 'a whole number, without quotes'),
  intOrString: (value) =>
    typeof value === 'string' || isWhole(value, 2 ** 31)
      ? undefined
      : 'a whole number of 32 bits, or a text',
  quantity: (value) =>
    typeof value === 'number' || (typeof value === 'string' && QUANTITY.test(value.trim()))
      ? undefined
      : 'a quantity, such as 1, 500m or 64Mi',
}

/** https://pkg.go.dev/k8s.io/apimachinery/pkg/api/resource#Quantity */
const QUANTITY = /^[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$/

function isWhole(value: unknown, bound: number): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= -bound && value < bound
}

function singular(type: FieldType): string {
  if (type.kind === 'list') return 'a list'
  return type.kind === 'scalar' ? 'a value' : 'a mapping'
}

function plural(type: FieldType): string {
  if (type.kind === 'list') return 'lists'
  if (type.kind !== 'scalar') return 'mappings'
  return type.scalar === 'string' ? 'texts' : type.scalar === 'quantity' ? 'quantities' : 'values'
}

function inside(path: string, key: string): string {
  if (!/^[\w-]+$/.test(key)) return `${path}[${shorten(key)}]`
  return path === '' ? key : `${path}.${key}`
}
