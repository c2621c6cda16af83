import { expect } from 'vitest'
import { type KubernetesObject, render, type Values } from './chart.js'

export const AGENT = 'akri-agent-daemonset'
export const CONTROLLER = 'akri-controller-deployment'
export const WEBHOOK = 'akri-webhook-configuration'
export const ONVIF = 'akri-onvif-discovery-daemonset'
export const OPCUA = 'akri-opcua-discovery-daemonset'
const MDNS = 'akri-mdns-discovery-daemonset'
const SSDP = 'akri-ssdp-discovery-daemonset'
const MODBUS = 'akri-modbus-discovery-daemonset'
const MQTT = 'akri-mqtt-discovery-daemonset'
const SNMP = 'akri-snmp-discovery-daemonset'
export const UDEV = 'akri-udev-discovery-daemonset'
const USB = 'akri-usb-discovery-daemonset'
const DEBUG_ECHO = 'akri-debug-echo-discovery-daemonset'
const UI = 'akri-ui'
/** The programs by the names of their values. */
export const PROGRAMS = {
  agent: AGENT,
  controller: CONTROLLER,
  webhookConfiguration: WEBHOOK,
  'onvif.discovery': ONVIF,
  'opcua.discovery': OPCUA,
  'mdns.discovery': MDNS,
  'ssdp.discovery': SSDP,
  'modbus.discovery': MODBUS,
  'mqtt.discovery': MQTT,
  'snmp.discovery': SNMP,
  'udev.discovery': UDEV,
  'usb.discovery': USB,
  'debugEcho.discovery': DEBUG_ECHO,
  ui: UI,
} as const
export const programs = Object.entries(PROGRAMS)
export const bothHandlers = [
  ['onvif.discovery.enabled', true],
  ['opcua.discovery.enabled', true],
] as const
export const everything = [
  ...bothHandlers,
  ['discovery.oneProcess', false],
  ['mdns.discovery.enabled', true],
  ['ssdp.discovery.enabled', true],
  ['modbus.discovery.enabled', true],
  ['mqtt.discovery.enabled', true],
  ['snmp.discovery.enabled', true],
  ['udev.discovery.enabled', true],
  ['usb.discovery.enabled', true],
  ['debugEcho.discovery.enabled', true],
  ['ui', { enabled: true, hosts: ['devices.example.com'] }],
] as const

export interface Workload extends KubernetesObject {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly volumes?: readonly {
          readonly name: string
          readonly hostPath?: { readonly path: string }
        }[]
        readonly containers: readonly {
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

/** The first container of a workload, with its environment as a map. */
export async function containerOf(name: string, values: Values) {
  const [container = expect.fail(`${name} is not there`)] =
    (await workloads(values))[name]?.containers ?? []
  return { ...container, env: new Map(container.env.map((item) => [item.name, item.value])) }
}
