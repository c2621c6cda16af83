import { inTurns } from '@akrijs/runtime'
import type { DeviceList, DeviceSpec, Mount } from '@akrijs/sdk/handler'
import { type HashedDevice, quote } from '../handlers/handler-endpoint.js'
import {
  isCanonicalPath,
  type PathRule,
  type Pattern,
  readDeviceRule,
  readMountRule,
  readNameRule,
} from './access-rules.js'
import { MAX_NAME, startEffect } from './environment-names.js'

export interface DeviceNodes {
  find(paths: ReadonlySet<string>): Promise<FoundNodes>
}

export interface FoundNodes {
  /** The paths that the kernel names; a symbolic link has no name. */
  readonly present: ReadonlySet<string>
  /** Whether the kernel has named all its device nodes. If not, a missing path can be a node. */
  readonly complete: boolean
}

/** A device as its handler may give it to containers, with the hash of what is reported. */
export interface AdmittedDevice extends HashedDevice {
  /** Why the device is not offered. Its members leave out what the handler may not give. */
  readonly refusal?: string
  /** Whether the refusal can end by itself: the kernel may name the device node later. */
  readonly isTemporary?: boolean
  /** The device as reported, if something is refused. */
  readonly reported?: HashedDevice
}

export function asReported(device: AdmittedDevice): HashedDevice {
  return device.reported ?? device
}

interface AccessRules {
  readonly mounts: readonly PathRule[]
  readonly devices: readonly PathRule[]
  readonly environment: readonly Pattern[]
}

type AccessKind = keyof AccessRules

interface HandlerAccessOptions {
  /** The rules of the operator: texts that have been read without an error. @default none */
  readonly rules?: Readonly<Record<AccessKind, readonly string[]>>
  /** How an operator sets the rules, for messages. @default rules cannot be set */
  readonly options?: Readonly<Record<AccessKind, string>>
  /** `unchecked`: there are no containers that could get a path. */
  readonly paths: DeviceNodes | 'unchecked'
}

/** Without a rule of the operator. The rules of an operator for a handler replace these. */
const STANDARD: Readonly<Record<string, Partial<Record<AccessKind, readonly string[]>>>> = {
  udev: { devices: ['/dev/**'], environment: ['UDEV_*', 'USB_RESOURCE_*', 'PCI_RESOURCE_*'] },
  usb: { devices: ['/dev/bus/usb/**'], environment: ['USB_*'] },
  onvif: { environment: ['ONVIF_*'] },
  opcua: { environment: ['OPCUA_*'] },
  mdns: { environment: ['MDNS_*'] },
  ssdp: { environment: ['SSDP_*'] },
  modbus: { environment: ['MODBUS_*'] },
  mqtt: { environment: ['MQTT_*'] },
  snmp: { environment: ['SNMP_*'] },
  debugEcho: { environment: ['DEBUG_ECHO_*'] },
}
/** The same for any other handler: all names but those that programs read when they start. */
const STANDARD_OF_OTHERS: Partial<Record<AccessKind, readonly string[]>> = { environment: ['*'] }

/**
 * Device nodes of memory and kernel are no devices for containers (Linux,
 * Documentation/admin-guide/devices.txt, and its drivers).
 */
const NODES_OF_KERNEL = new RegExp(
  '^/dev/(cpu/\\d+/msr|crash|kmem|kmsg|mem|oldmem|port|snapshot|vc-mem|' +
    'xen/(hypercall|privcmd))$',
)

interface Problem {
  readonly what: string
  readonly kind: AccessKind
  /** The rule that would allow it, without the handler; undefined if no rule can. */
  readonly rule: string | undefined
  readonly isTemporary?: boolean
}

/**
 * Decides what handlers may give to containers. A container gets a device as its handler describes
 * it, or not at all: without a part of its device it would fail, and nothing would show the reason.
 */
export class HandlerAccess {
  readonly #options: HandlerAccessOptions

  constructor(options: HandlerAccessOptions) {
    this.#options = options
  }

  /**
   * Decides about the devices of a list that have changed, and those with device nodes: the kernel
   * may name other nodes by then.
   *
   * @param before the admitted list before
   * @returns the devices in the order of the list, and how many devices, properties, mounts and
   * device nodes are new or have changed
   */
  async admit(
    handler: string,
    devices: readonly HashedDevice[],
    before: readonly AdmittedDevice[] = [],
  ): Promise<{ readonly devices: readonly AdmittedDevice[]; readonly changed: number }> {
    const admitted = new Map(before.map((device) => [device.id, device]))
    const toAdmit: HashedDevice[] = []
    let changed = 0
    for (const device of devices) {
      const { properties = {}, mounts = [], deviceSpecs = [] } = device
      const isSame = admitted.get(device.id)?.hash === device.hash
      if (!isSame)
        changed += 1 + Object.keys(properties).length + mounts.length + deviceSpecs.length
      if (!isSame || deviceSpecs.length > 0) toAdmit.push(device)
    }
    const rules = this.#rulesOf(handler)
    const nodes = await this.#findNodes(rules, toAdmit)
    // A list can have 100,000 properties, which take 0.2 to 0.5 s together.
    for await (const device of inTurns(toAdmit))
      admitted.set(device.id, this.#admitDevice(handler, device, rules, nodes))
    return { devices: devices.flatMap(({ id }) => admitted.get(id) ?? []), changed }
  }

  #admitDevice(
    handler: string,
    device: HashedDevice,
    rules: AccessRules,
    nodes: FoundNodes,
  ): AdmittedDevice {
    const problems: Problem[] = []
    const isAllowed = (problem: Problem | undefined) => {
      if (problem !== undefined) problems.push(problem)
      return problem === undefined
    }
    const { id, hash, properties = {}, mounts = [], deviceSpecs = [] } = device
    const isUnchecked = this.#options.paths === 'unchecked'
    const admitted = {
      ...{ id, hash },
      properties: Object.fromEntries(
        Object.entries(properties).filter(([name, value]) =>
          isAllowed(propertyProblem(name, value, rules.environment)),
        ),
      ),
      mounts: mounts.filter((mount) => isUnchecked || isAllowed(mountProblem(mount, rules.mounts))),
      deviceSpecs: deviceSpecs.filter(
        (spec) => isUnchecked || isAllowed(deviceProblem(spec, rules.devices, nodes)),
      ),
    }
    const [first] = problems
    if (first === undefined) return device
    const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : ''
    return {
      ...admitted,
      reported: device,
      isTemporary: problems.every(({ isTemporary }) => isTemporary),
      refusal:
        `handler ${handler} may not give containers ` +
        `${first.what}${more}${this.#remedy(handler, first)}`,
    }
  }

  #remedy(handler: string, { kind, rule }: Problem): string {
    const option = this.#options.options?.[kind]
    if (option === undefined || rule === undefined)
      return kind === 'environment' ? '; it has to report the value under another name' : ''
    // The first rule of a handler replaces the standard.
    const { texts, isStandard } = this.#textsOf(handler, kind)
    const rules = [...(isStandard ? texts : []), `${handler}=${rule}`].join(',')
    return `; only if you trust the handler with it, add ${rules} to ${option}`
  }

  #rulesOf(handler: string): AccessRules {
    const of = <Rule>(kind: AccessKind, read: (text: string) => Rule | undefined) =>
      this.#textsOf(handler, kind).texts.flatMap((text) => read(text) ?? [])
    return {
      mounts: of('mounts', readMountRule),
      devices: of('devices', readDeviceRule),
      environment: of('environment', readNameRule),
    }
  }

  #textsOf(handler: string, kind: AccessKind) {
    const all = this.#options.rules?.[kind] ?? []
    const texts = all.filter((rule) => rule.startsWith(`${handler}=`))
    if (texts.length > 0) return { texts, isStandard: false }
    const standard = Object.hasOwn(STANDARD, handler) ? STANDARD[handler] : STANDARD_OF_OTHERS
    const rules = standard?.[kind] ?? []
    return { texts: rules.map((rule) => `${handler}=${rule}`), isStandard: true }
  }

  async #findNodes({ devices: rules }: AccessRules, devices: DeviceList): Promise<FoundNodes> {
    const { paths } = this.#options
    const specs = devices.flatMap(({ deviceSpecs = [] }) => deviceSpecs)
    const isPattern = ({ host }: PathRule) => !host.isExact
    if (paths === 'unchecked' || specs.length === 0 || !rules.some(isPattern)) return NO_NODES
    return paths.find(new Set(specs.map(({ hostPath }) => hostPath)))
  }
}

/** A longer rule is not proposed in a condition. */
const MAX_RULE = 300

const NO_NODES: FoundNodes = { present: new Set(), complete: true }

function propertyProblem(
  name: string,
  value: string,
  rules: readonly Pattern[],
): Problem | undefined {
  // The time of a match grows with the name.
  const isLong = name.length > MAX_NAME
  const fitting = isLong ? [] : rules.filter((rule) => rule.matches(name))
  if (fitting.some((rule) => rule.isExact)) return undefined
  const isUnknown = fitting.length === 0
  const why =
    startEffect(name, value) ?? (isUnknown ? 'no rule for its properties has this name' : undefined)
  if (why === undefined) return undefined
  const rule = !isLong && /^[^=,*?\p{Cc}\s]+$/u.test(name) ? name : undefined
  return { what: `the property ${quote(name)}, because ${why}`, kind: 'environment', rule }
}

function mountProblem(mount: Mount, rules: readonly PathRule[]): Problem | undefined {
  const mode = mount.readOnly === true ? 'ro' : 'rw'
  const what = `the mount of ${placeOf(mount, mode)}`
  // First: a canonical path is not long, and the time of a match grows with the path.
  if (!areCanonical(mount))
    return { what: `${what}: it is not canonical`, kind: 'mounts', rule: undefined }
  const isAllowed = rules.some(
    (rule) => pathsFit(mount, rule) && (rule.mode === 'rw' || mode === 'ro'),
  )
  return isAllowed ? undefined : { what, kind: 'mounts', rule: ruleFor(mount, mode, 'ro') }
}

function deviceProblem(
  spec: DeviceSpec,
  rules: readonly PathRule[],
  nodes: FoundNodes,
): Problem | undefined {
  const { hostPath, permissions } = spec
  const problem = (why: string, rule?: string): Problem => ({
    what: `the device node ${placeOf(spec, permissions)}${why}`,
    kind: 'devices',
    rule,
  })
  if (!areCanonical(spec)) return problem(': it is not canonical')
  const rule = ruleFor(spec, permissions, 'rwm')
  const fitting = rules.filter(
    (allowed) =>
      pathsFit(spec, allowed) && [...permissions].every((right) => allowed.mode.includes(right)),
  )
  if (fitting.length === 0) return problem('', rule)
  if (fitting.some(({ host }) => host.isExact)) return undefined
  if (NODES_OF_KERNEL.test(hostPath))
    return problem(', because it opens the memory or the kernel of the node', rule)
  // A pattern of the operator means devices, and not any file below /dev.
  if (nodes.present.has(hostPath)) return undefined
  return {
    ...(nodes.complete
      ? problem(', because the kernel has no device node of this name; a link is none', rule)
      : problem(' before the kernel has named all its device nodes; the agent asks again')),
    isTemporary: true,
  }
}

type Paths = Pick<Mount, 'hostPath' | 'containerPath'>

function areCanonical({ hostPath, containerPath }: Paths): boolean {
  return isCanonicalPath(hostPath) && isCanonicalPath(containerPath)
}

function pathsFit({ hostPath, containerPath }: Paths, { host, container }: PathRule): boolean {
  if (!host.matches(hostPath)) return false
  // Elsewhere in the container, the path could replace the programs of the container.
  return container === undefined ? containerPath === hostPath : container.matches(containerPath)
}

function placeOf({ hostPath, containerPath }: Paths, mode: string): string {
  const place = containerPath === hostPath ? '' : ` at ${quote(containerPath)}`
  return `${quote(hostPath)}${place} (${mode})`
}

/** The rule that allows the paths, without the handler. */
function ruleFor(
  { hostPath, containerPath }: Paths,
  mode: string,
  standard: string,
): string | undefined {
  // In a rule, these characters have a meaning of their own.
  const [host, container] = [hostPath, containerPath].map((path) => path.replace(/[,:*]/g, '?'))
  const parts = [host, ...(hostPath === containerPath ? [] : [container])]
  const rule = [...parts, ...(mode === standard ? [] : [mode])].join(':')
  return rule.length > MAX_RULE ? undefined : rule
}
