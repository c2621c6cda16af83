import type { Device } from '@akrijs/runtime/handler'
import { describe, expect, it, vi } from 'vitest'
import { turnsOf } from '../../../test/support/turns.js'
import type { DeviceNodes } from '../kubelet/device-nodes.js'
import { checked } from '../testing/objects.js'
import { Pattern, readDeviceRule, readMountRule, readNameRule } from './access-rules.js'
import { HandlerAccess } from './handler-access.js'

const NODES: readonly string[] = [
  '/dev/null',
  '/dev/mem',
  '/dev/kmsg',
  '/dev/video0',
  '/dev/cpu/0/cpuid',
  '/dev/bus/usb/001/002',
]
const paths: DeviceNodes = {
  find: async (asked) => ({
    present: new Set(NODES.filter((path) => asked.has(path))),
    complete: true,
  }),
}
const options = { mounts: 'MOUNTS', devices: 'DEVICES', environment: 'NAMES' }

function accessBy(...rules: readonly [kind: keyof typeof options, text: string][]): HandlerAccess {
  const of = <Rule>(kind: string, read: (text: string) => Rule | undefined) =>
    rules.filter(([is]) => is === kind).flatMap(([, text]) => read(text) ?? [])
  return new HandlerAccess({
    paths,
    options,
    rules: {
      mounts: of('mounts', readMountRule),
      devices: of('devices', readDeviceRule),
      environment: of('environment', readNameRule),
    },
  })
}

const mountOf = (hostPath: string, readOnly = true, containerPath = hostPath): Device => ({
  id: 'd',
  mounts: [{ hostPath, containerPath, readOnly }],
})
const nodeOf = (hostPath: string, permissions = 'rwm', containerPath = hostPath): Device => ({
  id: 'd',
  deviceSpecs: [{ hostPath, containerPath, permissions }],
})

/** The refusal of a device; undefined for a device that is admitted as it is. */
async function refusal(access: HandlerAccess, handler: string, reported: Device) {
  const device = checked(reported)
  const [admitted] = await access.admit(handler, [device])
  if (admitted?.refusal === undefined) expect(admitted).toBe(device)
  return admitted?.refusal
}

describe('what a handler may give to containers', () => {
  it.each(['sensor', 'onvif', 'opcua', 'debugEcho', 'udev', 'constructor'])(
    'without a rule is no mount: %s',
    async (handler) => {
      for (const path of [
        '/',
        '/etc',
        '/var/lib/kubelet',
        '/dev/null',
        '/run/containerd/containerd.sock',
      ])
        expect(await refusal(accessBy(), handler, mountOf(path))).toContain(
          `handler ${handler} may not give containers the mount of "${path}" (ro); ` +
            `only if you trust the handler with it, add ${handler}=${path} to MOUNTS`,
        )
    },
  )

  it.each(['sensor', 'onvif', 'opcua', 'debugEcho', 'constructor'])(
    'without a rule is no device node: %s',
    async (handler) => {
      for (const path of ['/dev/mem', '/dev/video0', '/dev/null'])
        expect(await refusal(accessBy(), handler, nodeOf(path, 'rw'))).toContain(
          `the device node "${path}" (rw); ` +
            `only if you trust the handler with it, add ${handler}=${path}:rw to DEVICES`,
        )
    },
  )

  it('of udev is each device node that the kernel names', async () => {
    for (const path of ['/dev/null', '/dev/video0', '/dev/bus/usb/001/002', '/dev/cpu/0/cpuid'])
      expect(await refusal(accessBy(), 'udev', nodeOf(path))).toBeUndefined()
  })

  it('of udev is not the memory or the kernel of the node, unless a rule names it', async () => {
    for (const path of ['/dev/mem', '/dev/kmsg'])
      expect(await refusal(accessBy(), 'udev', nodeOf(path))).toMatch(
        'because it opens the memory or the kernel of the node; ' +
          `only if you trust the handler with it, add udev=/dev/**,udev=${path} to DEVICES`,
      )
    const named = accessBy(['devices', 'udev=/dev/**'], ['devices', 'udev=/dev/mem'])
    expect(await refusal(named, 'udev', nodeOf('/dev/mem'))).toBeUndefined()
    expect(await refusal(named, 'udev', nodeOf('/dev/kmsg'))).toMatch(/add udev=\/dev\/kmsg to/)
  })

  it.each([
    ...['mem', 'kmem', 'port', 'kmsg', 'oldmem', 'crash', 'snapshot', 'vc-mem', 'cpu/0/msr'],
    ...['cpu/127/msr', 'xen/privcmd', 'xen/hypercall'],
  ])('by a pattern is never /dev/%s', async (name) => {
    const path = `/dev/${name}`
    const named = new HandlerAccess({
      paths: { find: async () => ({ present: new Set([path]), complete: true }) },
    })
    expect(await refusal(named, 'udev', nodeOf(path))).toMatch(/memory or the kernel/)
  })

  it.each([
    ...[
      '/dev/mem0',
      '/dev/shm/video0',
      '/dev',
      '/devil',
      '/dev/../etc/shadow',
      '/dev/./video0',
      '/dev//video0',
    ],
    ...[
      '/dev/video0/',
      '/dev/video0/..',
      'dev/video0',
      '/proc/1/root/dev/video0',
      '/dev/video0\n',
      '/dev/fd/3',
      '',
    ],
  ])('of udev is not %j', async (path) => {
    expect(await refusal(accessBy(), 'udev', nodeOf(path))).toMatch(/device node/)
  })

  it('is at the same path in the container, unless a rule names another path', async () => {
    expect(await refusal(accessBy(), 'udev', nodeOf('/dev/null', 'rw', '/dev/zero'))).toMatch(
      '"/dev/null" at "/dev/zero" (rw)',
    )
    const access = accessBy(['mounts', 'sensor=/srv/a:/data/*:rw'])
    expect(await refusal(access, 'sensor', mountOf('/srv/a', false, '/data/x'))).toBeUndefined()
    for (const path of ['/srv/a', '/usr/lib', '/data', '/data/x/y', '/data/../usr/lib'])
      expect(await refusal(access, 'sensor', mountOf('/srv/a', false, path))).toMatch(/mount/)
  })

  it('by a rule is this path and no other', async () => {
    const access = accessBy(['mounts', 'sensor=/srv/a'], ['devices', 'sensor=/dev/ttyUSB0:rw'])
    expect(await refusal(access, 'sensor', mountOf('/srv/a'))).toBeUndefined()
    for (const path of ['/srv', '/srv/ab', '/srv/a/b', '/srv/a/..', '/srv/a/', '/'])
      expect(await refusal(access, 'sensor', mountOf(path))).toMatch(/mount/)
    expect(await refusal(access, 'other', mountOf('/srv/a'))).toMatch(/handler other may not/)
    // The kernel has no such node, but the operator names it: it may be a link of udev.
    expect(await refusal(access, 'sensor', nodeOf('/dev/ttyUSB0', 'rw'))).toBeUndefined()
    expect(await refusal(access, 'sensor', nodeOf('/dev/ttyUSB1', 'rw'))).toMatch(/device node/)
  })

  it('by a pattern is only a device node that the kernel names', async () => {
    const access = accessBy(['devices', 'sensor=/dev/*'])
    expect(await refusal(access, 'sensor', nodeOf('/dev/video0'))).toBeUndefined()
    // A container runtime would give all device nodes of a directory.
    expect(await refusal(access, 'sensor', nodeOf('/dev/bus'))).toMatch(
      /because the kernel has no device node of this name/,
    )
    expect(await refusal(access, 'sensor', nodeOf('/dev/mem'))).toMatch(/memory or the kernel/)
  })

  it('by a pattern is decided again if the kernel may name the device node later', async () => {
    const slow = { find: async () => ({ present: new Set<string>(), complete: false }) }
    const bad = { id: 'd', properties: { PATH: 'x' } }
    const devices = [nodeOf('/dev/video9'), { ...nodeOf('/dev/video9'), ...bad }, bad]
    const slowly = new HandlerAccess({ paths: slow })
    const [later, never, other] = await slowly.admit('udev', devices.map(checked))
    expect(later).toMatchObject({
      isTemporary: true,
      refusal:
        'handler udev may not give containers the device node "/dev/video9" (rwm) ' +
        'before the kernel has named all its device nodes; the agent asks again',
    })
    expect([never?.isTemporary, other?.isTemporary]).toEqual([false, false])
    const nodes = [nodeOf('/dev/video9'), nodeOf('/dev/mem')]
    const [absent, memory] = await accessBy().admit('udev', nodes.map(checked))
    expect([absent?.isTemporary, memory?.isTemporary]).toEqual([true, false])
    expect(absent?.refusal).toMatch(/a link is none; .* add udev=\/dev\/\*\*,udev=\/dev\/video9 to/)
  })

  it('has at most the access of the rule', async () => {
    const access = accessBy(['mounts', 'sensor=/srv/a'], ['devices', 'sensor=/dev/ttyUSB0:r'])
    expect(await refusal(access, 'sensor', mountOf('/srv/a', false))).toMatch(
      /"\/srv\/a" \(rw\);.*add sensor=\/srv\/a:rw to MOUNTS/,
    )
    expect(await refusal(access, 'sensor', nodeOf('/dev/ttyUSB0', 'r'))).toBeUndefined()
    expect(await refusal(access, 'sensor', nodeOf('/dev/ttyUSB0', 'rw'))).toMatch(
      /add sensor=\/dev\/ttyUSB0:rw to DEVICES/,
    )
    const writable = accessBy(['mounts', 'sensor=/srv/a:rw'])
    expect(await refusal(writable, 'sensor', mountOf('/srv/a', true))).toBeUndefined()
  })

  it('is what the rule of a refusal allows', async () => {
    const devices = [
      mountOf('/srv/a', false, '/b'),
      mountOf('/srv/a,b:c', true),
      nodeOf('/dev/ttyUSB0', 'r', '/dev/serial'),
      { id: 'd', properties: { NODE_OPTIONS: '--require x' } },
      { id: 'd', properties: { 'LD_PRELOAD_%%': 'x' } },
    ]
    for (const device of devices) {
      const told = await refusal(accessBy(), 'sensor', device)
      const [, rules = '', option = ''] = /add (\S+) to (\S+)$/.exec(told ?? '') ?? []
      const kind = option === 'MOUNTS' ? 'mounts' : option === 'DEVICES' ? 'devices' : 'environment'
      const access = accessBy(
        ...rules.split(',').map((rule): [typeof kind, string] => [kind, rule]),
      )
      expect(await refusal(access, 'sensor', device), rules).toBeUndefined()
      const other: Device = { id: 'e', properties: { SENSOR_URL: 'x' } }
      expect(await refusal(access, 'sensor', other), rules).toBeUndefined()
    }
  })

  it('of a built-in handler has the names of this handler only', async () => {
    const of = (name: string) => ({ id: 'd', properties: { [name]: 'x' } })
    const legal: [string, string][] = [
      ['udev', 'UDEV_DEVNODE_0'],
      ['udev', 'USB_RESOURCE_AKRI_SH_UDEV-MOUSE'],
      ['onvif', 'ONVIF_DEVICE_SERVICE_URL'],
      ['opcua', 'OPCUA_DISCOVERY_URL'],
      ['debugEcho', 'DEBUG_ECHO_DESCRIPTION'],
      ['sensor', 'ONVIF_DEVICE_SERVICE_URL'],
    ]
    for (const [handler, name] of legal)
      expect(await refusal(accessBy(), handler, of(name))).toBeUndefined()
    const message = await refusal(accessBy(), 'onvif', of('DATABASE_URL'))
    expect(message).toContain('"DATABASE_URL", because no rule for its properties has this name; ')
    expect(message).toContain(' add onvif=ONVIF_*,onvif=DATABASE_URL to NAMES')
  })

  it('has no property that changes how a program starts, unless a rule names it', async () => {
    const device: Device = { id: 'd', properties: { LD_PRELOAD: '/x.so', SENSOR_URL: 'u' } }
    const message = await refusal(accessBy(), 'sensor', device)
    expect(message).toContain(
      'the property "LD_PRELOAD", because the dynamic loader and the C library read it; ',
    )
    expect(message).toContain('add sensor=*,sensor=LD_PRELOAD to NAMES')
    const patterns = accessBy(['environment', 'sensor=*'], ['environment', 'sensor=LD_*'])
    expect(await refusal(patterns, 'sensor', device)).toMatch(/LD_PRELOAD/)
    const named = accessBy(['environment', 'sensor=*'], ['environment', 'sensor=LD_PRELOAD'])
    expect(await refusal(named, 'sensor', device)).toBeUndefined()
  })

  it('leaves out of a refused device all that is refused, and keeps the report', async () => {
    const device = checked({
      id: 'd',
      properties: { PATH: '/evil', SENSOR_URL: 'u' },
      mounts: [{ hostPath: '/', containerPath: '/host', readOnly: false }],
      deviceSpecs: [{ hostPath: '/dev/mem', containerPath: '/dev/mem', permissions: 'rwm' }],
    })
    const [admitted] = await accessBy().admit('sensor', [device])
    expect(admitted).toMatchObject({ id: 'd', mounts: [], deviceSpecs: [], reported: device })
    expect(admitted?.properties).toEqual({ SENSOR_URL: 'u' })
    expect(admitted?.refusal).toMatch(/\(and 2 more\)/)
  })

  it('names no rule where no operator can set one; paths count for containers only', async () => {
    const access = new HandlerAccess({ paths: 'unchecked' })
    expect(await refusal(access, 'sensor', mountOf('/'))).toBeUndefined()
    expect(await refusal(access, 'sensor', nodeOf('/dev/sda'))).toBeUndefined()
    expect(await refusal(access, 'sensor', { id: 'd', properties: { PATH: 'x' } })).toBe(
      'handler sensor may not give containers the property "PATH", because shells read it; ' +
        'it has to report the value under another name',
    )
  })
})

describe('a rule', () => {
  it.each([
    ...[
      '',
      'sensor',
      'sensor=',
      '=/a',
      'sensor=a',
      'sensor=/a/',
      'sensor=/a/../b',
      'sensor=//a',
      'sen sor=/a',
    ],
    ...[
      'sensor=/a:b',
      'sensor=/a:/b:/c',
      'sensor=/a:rw:ro',
      'sensor=/a:/b/:rw',
      'sensor=/a\n',
      'sensor=/a:',
    ],
  ])('is not %j', (text) => {
    expect(readMountRule(text)).toBeUndefined()
    expect(readDeviceRule(text)).toBeUndefined()
  })

  it('has the modes of its kind', () => {
    expect(readMountRule('a=/b')?.mode).toBe('ro')
    expect(readMountRule('a=/b:rwm')).toBeUndefined()
    expect(readDeviceRule('a=/b')?.mode).toBe('rwm')
    for (const mode of ['ro', 'rr', 'rwmr', 'x'])
      expect(readDeviceRule(`a=/b:${mode}`)).toBeUndefined()
  })

  it('of a name has a name', () => {
    for (const text of ['a', 'a=', 'a=B=C', 'a=B C', 'a b=C'])
      expect(readNameRule(text)).toBeUndefined()
    expect(readNameRule('a=B_*')?.name.matches('B_/x')).toBe(true)
  })
})

describe('the time of a decision', () => {
  const access = accessBy(['mounts', 'sensor=/a/**/b/**/c'], ['environment', 'sensor=*A*B*C'])

  it('does not grow with the length of names and paths', async () => {
    const matches = vi.spyOn(Pattern.prototype, 'matches')
    try {
      const long = 'A'.repeat(60_000)
      expect(await refusal(access, 'sensor', { id: 'd', properties: { [long]: '' } })).toMatch(
        /because its name has more than 256 characters/,
      )
      expect(await refusal(access, 'sensor', mountOf(`/a/${long}`))).toMatch(/is not canonical/)
      expect(await refusal(access, 'sensor', nodeOf(`/a/${long}`))).toMatch(/is not canonical/)
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
