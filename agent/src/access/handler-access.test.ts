import type { Device } from '@akrijs/sdk/handler'
import { describe, expect, it, vi } from 'vitest'
import { turnsOf } from '../../../test/support/turns.js'
import { checked } from '../testing/objects.js'
import { Pattern } from './access-rules.js'
import type { DeviceNodes } from './handler-access.js'
import { HandlerAccess } from './handler-access.js'

/** The device nodes that the kernel names: the last ones are no devices for containers. */
const NODES: readonly string[] = [
  ...['null', 'video0', 'bus/usb/001/002', 'cpu/0/cpuid'],
  ...['mem', 'kmem', 'port', 'kmsg', 'oldmem', 'crash', 'snapshot', 'vc-mem', 'cpu/0/msr'],
  ...['cpu/127/msr', 'xen/privcmd', 'xen/hypercall'],
]
const paths: DeviceNodes = {
  find: async (asked) => ({
    present: new Set(NODES.map((name) => `/dev/${name}`).filter((path) => asked.has(path))),
    complete: true,
  }),
}
const options = { mounts: 'MOUNTS', devices: 'DEVICES', environment: 'NAMES' }

/** @param rules such as `MOUNTS sensor=/a`, between semicolons */
function accessBy(rules = ''): HandlerAccess {
  const of = (option: string) =>
    rules
      .split('; ')
      .filter((rule) => rule.startsWith(option))
      .map((rule) => rule.slice(option.length + 1))
  const { mounts, devices, environment } = options
  return new HandlerAccess({
    paths,
    options,
    rules: { mounts: of(mounts), devices: of(devices), environment: of(environment) },
  })
}

/** @param text `mount PATH[:PATH IN CONTAINER] MODE`, the same of a `node`, or `property NAME` */
function deviceOf(text: string): Device {
  const [kind, place = '', mode = ''] = text.split(' ')
  if (kind === 'property') return { id: 'd', properties: { [place]: 'x' } }
  const [hostPath = '', containerPath = hostPath] = place.split(':')
  const both = { hostPath, containerPath }
  return kind === 'mount'
    ? { id: 'd', mounts: [{ ...both, readOnly: mode === 'ro' }] }
    : { id: 'd', deviceSpecs: [{ ...both, permissions: mode }] }
}

/** The refusal of a device; undefined for a device that is admitted as it is. */
async function refusal(access: HandlerAccess, handler: string, reported: Device | string) {
  const device = checked(typeof reported === 'string' ? deviceOf(reported) : reported)
  const { devices } = await access.admit(handler, [device])
  const [admitted] = devices
  if (admitted?.refusal === undefined) expect(admitted).toBe(device)
  return admitted?.refusal
}

describe('a handler may give to containers', () => {
  it.each<[rules: string, handler: string, ...reported: string[]]>([
    ['', 'udev', ...NODES.slice(0, 4).map((name) => `node /dev/${name} rwm`)],
    ['', 'udev', 'property UDEV_DEVNODE_0', 'property USB_RESOURCE_AKRI_SH_UDEV-MOUSE'],
    ['', 'usb', 'node /dev/bus/usb/001/002 rw', 'property USB_DEVNODE_0'],
    ['', 'onvif', 'property ONVIF_DEVICE_SERVICE_URL'],
    ['', 'opcua', 'property OPCUA_DISCOVERY_URL'],
    ['', 'debugEcho', 'property DEBUG_ECHO_DESCRIPTION'],
    ['', 'sensor', 'property ONVIF_DEVICE_SERVICE_URL', 'property DATABASE_URL'],
    ['DEVICES udev=/dev/**; DEVICES udev=/dev/mem', 'udev', 'node /dev/mem rwm'],
    ['MOUNTS sensor=/srv/a', 'sensor', 'mount /srv/a ro'],
    ['MOUNTS sensor=/srv/a:rw', 'sensor', 'mount /srv/a ro', 'mount /srv/a rw'],
    ['MOUNTS sensor=/srv/a:/data/*:rw', 'sensor', 'mount /srv/a:/data/x rw'],
    // The kernel has no such node, but the operator names it: it may be a link of udev.
    ['DEVICES sensor=/dev/ttyUSB0:rw', 'sensor', 'node /dev/ttyUSB0 rw', 'node /dev/ttyUSB0 r'],
    ['DEVICES sensor=/dev/*', 'sensor', 'node /dev/video0 rwm'],
    ['NAMES sensor=*; NAMES sensor=LD_PRELOAD', 'sensor', 'property LD_PRELOAD', 'property A'],
  ])('with the rules "%s": %s %s', async (rules, handler, ...reported) => {
    for (const device of reported)
      expect(await refusal(accessBy(rules), handler, device), device).toBeUndefined()
  })

  const NO_NODE = 'because the kernel has no device node of this name; a link is none'
  const KERNEL = 'because it opens the memory or the kernel of the node'
  type Refused = [rules: string, handler: string, told: string, ...reported: string[]]
  it.each<Refused>([
    ...['sensor', 'onvif', 'opcua', 'debugEcho', 'constructor'].flatMap((handler): Refused[] => [
      ['', handler, `add ${handler}=/ to MOUNTS`, 'mount / ro'],
      ['', handler, `add ${handler}=/dev/null:rw to DEVICES`, 'node /dev/null rw'],
      ['', handler, `add ${handler}=/dev/mem:rw to DEVICES`, 'node /dev/mem rw'],
    ]),
    ['', 'udev', 'the mount of "/dev/null" (ro); only if you trust', 'mount /dev/null ro'],
    ['', 'udev', 'add udev=/run/a.sock:rw to MOUNTS', 'mount /run/a.sock rw'],
    ['', 'udev', KERNEL, ...NODES.slice(4).map((name) => `node /dev/${name} rwm`)],
    ['', 'udev', 'add udev=/dev/**,udev=/dev/mem to DEVICES', 'node /dev/mem rwm'],
    ['DEVICES udev=/dev/**', 'udev', 'add udev=/dev/kmsg to DEVICES', 'node /dev/kmsg rwm'],
    ['', 'udev', NO_NODE, 'node /dev/mem0 r', 'node /dev/shm/video0 r', 'node /dev/fd/3 r'],
    ['', 'udev', '"/devil" (r); only if', 'node /devil r'],
    ['', 'udev', '"/proc/1/root/dev/video0" (r); only if', 'node /proc/1/root/dev/video0 r'],
    ['', 'udev', '"/dev" (r); only if', 'node /dev r'],
    [
      ...(['', 'udev', 'it is not canonical'] as const),
      ...['/dev/../etc/shadow', '/dev/./video0', '/dev//video0', '/dev/video0/'].map(
        (path) => `node ${path} r`,
      ),
      ...['/dev/video0/..', 'dev/video0', '/dev/video0\n', ''].map((path) => `node ${path} r`),
    ],
    ['', 'usb', '"/dev/video0" (r); only if', 'node /dev/video0 r'],
    ['', 'usb', 'the mount of "/dev/bus/usb"', 'mount /dev/bus/usb rw'],
    ['', 'usb', '"UDEV_DEVNODE", because no rule', 'property UDEV_DEVNODE'],
    ['', 'udev', '"/dev/null" at "/dev/zero" (rw)', 'node /dev/null:/dev/zero rw'],
    [
      ...(['MOUNTS sensor=/srv/a:/data/*:rw', 'sensor', 'the mount of "/srv/a"'] as const),
      ...['/srv/a', '/usr/lib', '/data', '/data/x/y', '/data/../usr/lib'].map(
        (path) => `mount /srv/a:${path} rw`,
      ),
    ],
    [
      ...(['MOUNTS sensor=/srv/a', 'sensor', 'the mount of "/'] as const),
      ...['/srv', '/srv/ab', '/srv/a/b', '/srv/a/..', '/srv/a/', '/'].map(
        (path) => `mount ${path} ro`,
      ),
    ],
    ['MOUNTS sensor=/srv/a', 'other', 'handler other may not', 'mount /srv/a ro'],
    ['MOUNTS sensor=/srv/a', 'sensor', 'add sensor=/srv/a:rw to MOUNTS', 'mount /srv/a rw'],
    ['DEVICES sensor=/dev/a:r', 'sensor', 'add sensor=/dev/a:rw to DEVICES', 'node /dev/a rw'],
    ['DEVICES sensor=/dev/a', 'sensor', 'the device node "/dev/b" (r)', 'node /dev/b r'],
    // A container runtime would give all device nodes of a directory.
    ['DEVICES sensor=/dev/*', 'sensor', NO_NODE, 'node /dev/bus rwm'],
    ['DEVICES sensor=/dev/*', 'sensor', KERNEL, 'node /dev/mem rwm'],
    [
      ...([
        '',
        'onvif',
        '"DATABASE_URL", because no rule for its properties has this name; ',
      ] as const),
      'property DATABASE_URL',
    ],
    ['', 'onvif', 'add onvif=ONVIF_*,onvif=DATABASE_URL to NAMES', 'property DATABASE_URL'],
    ['', 'sensor', 'because the dynamic loader and the C library read', 'property LD_PRELOAD'],
    ['', 'sensor', 'add sensor=*,sensor=LD_PRELOAD to NAMES', 'property LD_PRELOAD'],
    ['NAMES sensor=*; NAMES sensor=LD_*', 'sensor', '"LD_PRELOAD"', 'property LD_PRELOAD'],
  ])('nothing beyond the rules "%s": %s "%s"', async (rules, handler, told, ...reported) => {
    for (const device of reported)
      expect(await refusal(accessBy(rules), handler, device), device).toContain(told)
  })

  it('that which the rule of a refusal allows', async () => {
    const reported = ['mount /srv/a:/b rw', 'mount /srv/a,b ro', 'node /dev/ttyUSB0:/dev/serial r']
    const colon = { hostPath: '/srv/b:c', containerPath: '/srv/b:c', readOnly: true }
    const names = ['property NODE_OPTIONS', 'property LD_PRELOAD_%%']
    for (const device of [...[...reported, ...names].map(deviceOf), { id: 'd', mounts: [colon] }]) {
      const told = await refusal(accessBy(), 'sensor', device)
      const [, rules = '', option = ''] = /add (\S+) to (\S+)$/.exec(told ?? '') ?? []
      const each = rules.split(',').map((rule) => `${option} ${rule}`)
      const access = accessBy(each.join('; '))
      expect(await refusal(access, 'sensor', device), rules).toBeUndefined()
      expect(await refusal(access, 'sensor', 'property SENSOR_URL'), rules).toBeUndefined()
    }
  })
})

describe('a refused device', () => {
  it('is decided about again if the kernel may name its device node later', async () => {
    const slow = { find: async () => ({ present: new Set<string>(), complete: false }) }
    const [node, property] = [deviceOf('node /dev/video9 rwm'), deviceOf('property PATH')]
    const devices = [node, { ...node, ...property, id: 'e' }, { ...property, id: 'f' }].map(checked)
    const access = new HandlerAccess({ paths: slow })
    const [later, never, other] = (await access.admit('udev', devices)).devices
    expect(later).toMatchObject({
      isTemporary: true,
      refusal:
        'handler udev may not give containers the device node "/dev/video9" (rwm) ' +
        'before the kernel has named all its device nodes; the agent asks again',
    })
    expect([never?.isTemporary, other?.isTemporary]).toEqual([false, false])
    const nodes = [node, { ...deviceOf('node /dev/mem rwm'), id: 'e' }].map(checked)
    const [absent, memory] = (await accessBy().admit('udev', nodes)).devices
    expect([absent?.isTemporary, memory?.isTemporary]).toEqual([true, false])
    expect(absent?.refusal).toContain('; only if you trust the handler with it, add udev=/dev/**,')
  })

  it('has no rule where no operator can set one; paths count for containers only', async () => {
    const access = new HandlerAccess({ paths: 'unchecked' })
    for (const device of ['mount / rw', 'node /dev/sda rwm'])
      expect(await refusal(access, 'sensor', device)).toBeUndefined()
    expect(await refusal(access, 'sensor', 'property PATH')).toBe(
      'handler sensor may not give containers the property "PATH", because shells read it; ' +
        'it has to report the value under another name',
    )
  })
})

describe('the time of a decision', () => {
  const access = accessBy('MOUNTS sensor=/a/**/b/**/c; NAMES sensor=*A*B*C')

  it('does not grow with the length of names and paths', async () => {
    const matches = vi.spyOn(Pattern.prototype, 'matches')
    try {
      const long = 'A'.repeat(60_000)
      for (const [device, told] of [
        [`property ${long}`, 'because its name has more than 256 characters'],
        [`mount /a/${long} ro`, 'is not canonical'],
        [`node /a/${long} r`, 'is not canonical'],
      ] as const)
        expect(await refusal(access, 'sensor', device)).toContain(told)
      expect(matches).not.toHaveBeenCalled()
    } finally {
      matches.mockRestore()
    }
  })

  it('is divided: other work gets its turn between devices', async () => {
    const properties = (n: number) => ({ ['AB'.repeat(128)]: `${n}` })
    const list = Array.from({ length: 300 }, (_, n) =>
      checked({ id: `${n}`, properties: properties(n) }),
    )
    expect(await turnsOf(() => access.admit('sensor', list))).toBeGreaterThan(10)
  })
})

describe('the next list', () => {
  it('costs work for devices that have changed, and keeps the objects of all others', async () => {
    const asked = vi.fn(paths.find)
    const access = new HandlerAccess({ paths: { find: asked } })
    const device = (id: string, UDEV_A = '') => checked({ id, properties: { UDEV_A } })
    const node = (id: string) => checked({ ...deviceOf(`node /dev/${id} rw`), id })
    const refused = checked({ id: 'refused', properties: { PATH: '' } })
    const list = [device('same'), device('changed'), refused, device('gone'), node('null')]
    const first = await access.admit('udev', [...list, node('video0')])
    expect(first.changed).toBe(4 * 2 + 2 * 2)
    const before = first.devices
    asked.mockResolvedValue({ present: new Set(['/dev/null']), complete: true })
    const now = [device('new'), device('changed', 'x'), refused, device('same'), ...before.slice(4)]
    const { devices, changed } = await access.admit('udev', now, before)
    expect(devices.map(({ id, refusal }) => [id, refusal !== undefined])).toEqual([
      ['new', false],
      ['changed', false],
      ['refused', true],
      ['same', false],
      ['null', false],
      // The kernel names other device nodes by now.
      ['video0', true],
    ])
    expect(devices.map((each) => before.includes(each))).toEqual([
      ...[false, false, true, true, true, false],
    ])
    expect([changed, asked.mock.lastCall]).toEqual([4, [new Set(['/dev/null', '/dev/video0'])]])
    const back = await new HandlerAccess({ paths }).admit('udev', [node('video0')], devices)
    expect(back.devices).toEqual([node('video0')])
  })
})
