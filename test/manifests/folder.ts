import { readFileSync } from 'node:fs'
import path from 'node:path'
import { load, loadAll } from 'js-yaml'

export const MANIFESTS = path.join(import.meta.dirname, '../../deploy/manifests')

/** The object of a file there. */
export const read = <T>(file: string) => load(readFileSync(path.join(MANIFESTS, file), 'utf8')) as T

/** The objects of a file there. */
export const readAll = <T>(file: string) =>
  loadAll(readFileSync(path.join(MANIFESTS, file), 'utf8')) as T[]

export interface Container {
  readonly image: string
  readonly command: readonly string[]
  readonly env?: readonly { readonly name: string; readonly value?: string }[]
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly resources: { readonly limits: { readonly memory: string } }
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[]
  readonly securityContext: object
}

/** The parts of a DaemonSet or a Deployment that tests read. */
export interface Workload {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly spec: {
    readonly replicas?: number
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> }
      readonly spec: {
        readonly containers: readonly [Container]
        readonly initContainers?: readonly Container[]
        readonly volumes?: readonly {
          readonly name: string
          readonly hostPath: { readonly path: string }
        }[]
        readonly tolerations?: readonly { readonly key?: string }[]
        readonly hostNetwork?: boolean
        readonly nodeSelector: object
        readonly securityContext: object
      }
    }
  }
}
