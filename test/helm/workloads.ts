import { type KubernetesObject, render, type Values } from './chart.js'

export interface Workload extends KubernetesObject {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly nodeSelector: object
        readonly priorityClassName?: string
        readonly tolerations?: readonly object[]
        readonly imagePullSecrets?: readonly object[]
        readonly volumes?: readonly {
          readonly name: string
          readonly hostPath?: { readonly path: string }
        }[]
        readonly containers: readonly {
          readonly image: string
          readonly imagePullPolicy: string
          readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
          readonly env: readonly { readonly name: string; readonly value?: string }[]
          readonly resources: { readonly limits: { readonly memory: string } }
        }[]
      }
    }
  }
}

const isWorkload = (object: KubernetesObject): object is Workload =>
  /^(DaemonSet|Deployment)$/.test(object.kind)

/** `{ a: { b: value } }` for `a.b`, for several paths. */
export function nested(values: Iterable<readonly [path: string, value: unknown]>): Values {
  const root = {}
  for (const [path, value] of values) {
    const keys = path.split('.')
    const last = keys.pop() ?? ''
    const at = keys.reduce<object>((inner, key) => {
      if (!Reflect.has(inner, key)) Reflect.set(inner, key, {})
      return Reflect.get(inner, key)
    }, root)
    Reflect.set(at, last, value)
  }
  return root
}

/** The parts that values set, by the names of the workloads. */
export async function workloads(
  values: Values,
): Promise<Readonly<Record<string, Workload['spec']['template']['spec']>>> {
  const found = (await render(values)).filter(isWorkload)
  return Object.fromEntries(found.map(({ metadata, spec }) => [metadata.name, spec.template.spec]))
}
