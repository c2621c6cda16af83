import { existsSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { load, loadAll } from 'js-yaml'
import type { KubernetesObject } from './chart.js'

/** The part of RFC 6902 that the manifests use. */
export interface PatchOperation {
  readonly op: string
  readonly path: string
  readonly value: unknown
}

interface Kustomization {
  readonly resources?: readonly string[]
  readonly patches?: readonly {
    readonly path: string
    readonly target: { readonly kind: string; readonly name: string; readonly namespace: string }
  }[]
}

/** The output of `kubectl kustomize` for a directory, as far as deploy/manifests uses it. */
export function kustomize(directory: string): KubernetesObject[] {
  const file = ['kustomization.yaml', 'kustomization.yml']
    .map((name) => path.join(directory, name))
    .find(existsSync)
  if (file === undefined) throw new Error(`${directory} has no kustomization`)
  const { resources = [], patches = [] } = load(readFileSync(file, 'utf8')) as Kustomization
  const objects = resources.flatMap((name) => {
    const resource = path.join(directory, name)
    if (statSync(resource).isDirectory()) return kustomize(resource)
    return loadAll(readFileSync(resource, 'utf8')) as KubernetesObject[]
  })
  for (const { path: patch, target } of patches) {
    const patched = objects.filter(
      ({ kind, metadata }) =>
        kind === target.kind &&
        metadata.name === target.name &&
        metadata.namespace === target.namespace,
    )
    if (patched.length !== 1)
      throw new Error(`${file}: ${patched.length} objects are ${target.kind} ${target.name}`)
    apply(patched[0], load(readFileSync(path.join(directory, patch), 'utf8')) as PatchOperation[])
  }
  return objects
}

function apply(object: unknown, patch: readonly PatchOperation[]): void {
  for (const { op, path: pointer, value } of patch) {
    const keys = pointer.slice(1).split('/')
    const last = keys.pop() ?? ''
    const at = keys.reduce(
      (inner: unknown, key) => Reflect.get(inner as object, key),
      object,
    ) as object
    if (op === 'test') {
      if (Reflect.get(at, last) !== value)
        throw new Error(`${pointer} is not ${JSON.stringify(value)}`)
    } else if (op === 'remove' && Reflect.has(at, last)) Reflect.deleteProperty(at, last)
    else if (op === 'add' && last === '-' && Array.isArray(at)) at.push(value)
    else if (op === 'replace' ? Reflect.has(at, last) : op === 'add' && !Array.isArray(at))
      Reflect.set(at, last, value)
    else throw new Error(`${op} ${pointer} is not known here`)
  }
}
