import type { Configuration, Instance } from '@akrijs/api'
import stringWidth from 'string-width'
import { describe, expect, it } from 'vitest'
import { drawAgent, type PictureInput } from './agent-picture.js'

const instance = (
  name: string,
  configuration: string,
  properties: Record<string, string> = { UDEV_DEVNODE: '/dev/null' },
) =>
  ({
    metadata: { name, namespace: 'default' },
    spec: {
      configurationName: configuration,
      brokerProperties: properties,
      deviceUsage: { [`${name}-0`]: 'node-a', [`${name}-1`]: '' },
    },
  }) as unknown as Instance

const configuration = (
  name: string,
  ready: 'True' | 'False' = 'True',
  message = '',
  annotations = {},
  reason = ready === 'True' ? 'AllDevicesServed' : 'HandlerLost',
) =>
  ({
    metadata: { name, namespace: 'default', annotations },
    status: {
      devices: 1,
      conditions: [
        {
          type: 'Ready',
          status: ready,
          reason,
          message,
        },
      ],
    },
  }) as unknown as Configuration

function draw(
  configurations: readonly Configuration[],
  instances: readonly Instance[],
  more: Partial<PictureInput> = {},
  problems: readonly object[] = [],
): string[] {
  const cluster = {
    configurations: { list: () => configurations },
    instances: { list: () => instances },
  }
  const standalone = {
    cluster,
    problems,
    handlers: [{ name: 'udev' }],
    problemPlace: () => ({ file: 'labs/lab.yaml', place: { line: 7, column: 5 } }),
  } as unknown as PictureInput['standalone']
  const brokers = { state: () => undefined } as PictureInput['brokers']
  return drawAgent({
    standalone,
    brokers,
    address: '',
    lines: [],
    columns: 80,
    rows: 24,
    ...more,
  }).map(plain)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken away
const plain = (text: string) => text.replace(/\u001b\[\d+m/g, '')

describe('the live view', () => {
  it.each([
    [{ phase: 'waiting', reason: 'it cannot be started' }, true],
    [{ phase: 'none', reason: 'it needs a cluster' }, true],
    [{ phase: 'failed', reason: 'exit code 1' }, true],
    [{ phase: 'waiting', reason: 'starting' }, false],
    [{ phase: 'waiting', reason: 'for 1 of akri.sh/nulls' }, false],
    [{ phase: 'completed' }, false],
  ] as const)('shows place and command for a broker that cannot run: %j', (state, cannot) => {
    const brokers = { state: () => state }
    const lines = draw([configuration('nulls')], [instance('nulls-1', 'nulls')], { brokers })
    const note = '    labs/lab.yaml:7:5  akri describe instance nulls-1'
    expect(lines.filter((line) => line.includes('akri describe'))).toEqual(cannot ? [note] : [])
  })

  it('shows the description of a Configuration, as far as it fits', () => {
    const described = configuration('nulls', 'True', '', {
      'kubernetes.io/description': 'nothing comes of them',
    })
    expect(draw([described], [])).toContain('nulls  1 device  nothing comes of them')
    expect(draw([described], [], { columns: 35 })).toContain('nulls  1 device  nothing comes of…')
    expect(draw([described], [], { columns: 24 })).toContain('nulls  1 device')
  })

  it('shows long reports in a second line, if there is room', () => {
    const reports = { connected: 'yes', time: '2026-11-23T06:42:36.000Z', value: '62.5' }
    const server = {
      ...instance('opcua-servers-8120fe', 'servers', {
        OPCUA_DISCOVERY_URL: 'opc.tcp://127.0.0.1:48410/',
      }),
      status: { brokerInfo: reports },
    } as unknown as Instance
    const configurations = [configuration('servers')]
    const at80 = draw(configurations, [server])
    expect(at80).toContain('  opcua-servers-8120fe  ●○  opc.tcp://127.0.0.1:48410/')
    expect(at80).toContain('      connected=yes  time=2026-11-23T06:42:36.000Z  value=62.5')
    const wide = draw(configurations, [server], { columns: 200 })
    expect(wide.filter((line) => line.includes('value=62.5'))).toEqual([
      expect.stringContaining('8120fe  ●○  opc.tcp'),
    ])
    const low = draw(configurations, [server], { rows: 4 })
    expect(low.filter((line) => /8120fe|connected/.test(line))).toHaveLength(1)
  })

  it('shows the problem of a Configuration, its place, and the command that explains it', () => {
    const lines = draw([configuration('cams', 'False', '2 of 2 devices')], [])
    expect(lines.slice(2)).toEqual([
      'cams  HandlerLost: 2 of 2 devices',
      '    labs/lab.yaml:7:5  akri describe configuration cams',
    ])
  })

  it.each([
    ['0 devices; the handler saw none; none of 4 devices matches KERNEL=="x"', undefined],
    ['0 devices; 1 not offered: 1 x HTTP status 401 (such as 10.0.0.7)', undefined],
    [
      '0 devices; the handler saw none; none of 9 devices matches SUBSYSTEM=="video4linux" ' +
        'of rule 1 of 1',
      '0 devices; none of 9 devices matches SUBSYSTEM=="video4linux"',
    ],
    [
      '0 devices; the handler saw none; no answer in 2 s to WS-Discovery Probes (UDP port 3702)',
      '0 devices; no answer in 2 s to WS-Discovery Probes (UDP port 3702)',
    ],
    [
      '0 devices; 5 not offered: 5 x rule 3 of 4 asks for SUBSYSTEMS=="usb" (such as /devices/pci)',
      '0 devices; 5 not offered: rule 3 of 4 asks for SUBSYSTEMS=="usb"',
    ],
    [
      `0 devices; 5 not offered: 5 x rule 3 of 4 asks for ${'x'.repeat(40)}`,
      '0 devices; 5 not offered',
    ],
  ])('says in one line that fits why a Configuration has no devices: %s', (message, shown) => {
    expect(draw([configuration('cams', 'True', message, {}, 'DevicesLeftOut')], [])).toContain(
      `cams  ${shown ?? message}`,
    )
  })

  /** Configurations with numbers of Instances, the first of them with a broker. */
  function world(sizes: readonly number[]) {
    const configurations = sizes.map((_, index) => configuration(`c${index}`))
    const instances = sizes.flatMap((size, index) =>
      Array.from({ length: size }, (_, device) => instance(`c${index}-${device}`, `c${index}`)),
    )
    return [configurations, instances] as const
  }
  const running: PictureInput['brokers'] = {
    state: (key) => (key === 'default/c3-1' ? { phase: 'running', pid: 7 } : undefined),
  }
  const log = Array.from({ length: 60 }, (_, index) => `line ${index}`)

  it('counts exactly what it does not show, and leaves no row unused', () => {
    for (const sizes of [[1, 1], [0, 1, 2, 3, 4, 0, 0, 0, 0], [2, 50], Array(40).fill(3)]) {
      const [configurations, instances] = world(sizes)
      for (let rows = 4; rows < 60; rows++) {
        const lines = draw(configurations, instances, { rows, lines: log, brokers: running })
        expect(lines.length).toBe(rows)
        const shown = (pattern: RegExp) => lines.filter((line) => pattern.test(line)).length
        const more = (noun: string) =>
          Number(new RegExp(`(\\d+) more ${noun}`).exec(lines.join('\n'))?.[1] ?? 0)
        expect(shown(/^c\d+ {2}/) + more('Configuration')).toBe(configurations.length)
        expect(shown(/^ {2}c\d+-/) + more('Instance')).toBe(instances.length)
        const hidden = more('Configuration') + more('Instance')
        expect(shown(/^and \d+ more .* \(akri get (configurations|instances)\)$/)).toBe(
          hidden > 0 ? 1 : 0,
        )
      }
    }
  })

  it('has a row for each Configuration, and what works first', () => {
    const [[, ...others], instances] = world([0, 1, 2, 3, 0])
    const failing = configuration('c0', 'False', 'no')
    const shown = draw([failing, ...others], instances, { rows: 14, brokers: running, lines: log })
    expect(shown.slice(2, -3)).toEqual([
      'c3  1 device',
      '  c3-1  ●○  /dev/null  broker 7',
      'c1  1 device',
      '  c1-0  ●○  /dev/null',
      'c2  1 device',
      'c0  HandlerLost: no',
      '    labs/lab.yaml:7:5  akri describe configuration c0',
      'c4  1 device',
      'and 4 more Instances (akri get instances)',
    ])
  })

  it('has the whole address of the page below its head, or none of it', () => {
    const address = `http://127.0.0.1:40123/?token=${'x'.repeat(43)}`
    expect(draw([], [], { address })[1]).toBe(address)
    expect(draw([], [], { address, columns: 60 }).join()).not.toContain('http')
  })

  it('fits into any terminal, however small', () => {
    const devices = ['カメラ'.repeat(20), '\u0301'.repeat(2000), 'x'.repeat(500)].map(
      (text, index) => instance(`c-${index}`, 'c'.repeat(60), { A: text }),
    )
    const problems = [{ file: 'f'.repeat(50), document: 0, path: '', message: 'no' }]
    const described = configuration('c'.repeat(60), 'True', '', {
      'kubernetes.io/description': 'nothing comes of them',
    })
    for (let columns = 1; columns < 90; columns += 8) {
      for (let rows = 1; rows < 14; rows++) {
        const lines = draw(
          [described],
          devices,
          { columns, rows, lines: ['y'.repeat(300)] },
          problems,
        )
        expect(lines.length).toBeLessThanOrEqual(rows)
        for (const line of lines) {
          expect(stringWidth(line)).toBeLessThanOrEqual(columns - 1 || 1)
          expect(line.length).toBeLessThan(1000)
        }
      }
    }
  })

  const problemsIn = (files: readonly string[]) =>
    files.map((file) => ({
      file,
      document: 1,
      path: 'spec.capacity',
      place: { line: 5, column: 3 },
      message: 'no',
    }))

  it('shows problems of files with their places, and the command that explains them', () => {
    const lines = draw([configuration('nulls')], [], {}, problemsIn(['a b.yaml', '/f/c.yaml']))
    expect(lines.slice(2)).toEqual([
      'nulls  1 device',
      '',
      'a b.yaml:5:3: spec.capacity: no',
      '/f/c.yaml:5:3: spec.capacity: no',
      "  akri validate 'a b.yaml' /f/c.yaml",
    ])
  })

  it('shows problems in a part of the terminal, and the number of the others', () => {
    const files = Array.from({ length: 100 }, (_, index) => `f${index}.yaml`)
    const lines = draw([configuration('nulls')], [], {}, problemsIn(files))
    expect(lines).toContain('f0.yaml:5:3: spec.capacity: no')
    expect(lines).toContain('nulls  1 device')
    expect(lines.at(-1)).toBe('  and 96 more  akri validate f0.yaml')
    expect(lines.length).toBeLessThanOrEqual(24)
  })

  it('has no command for a handler that cannot be loaded', () => {
    const problem = { file: '--handler', document: 0, path: '', message: 'not installed' }
    expect(draw([], [], {}, [problem]).slice(3)).toEqual(['--handler: not installed'])
  })

  it('prints no control sequence of a device or a broker', () => {
    const evil = '\u001b]0;owned\u0007\u001b[2J\r\nfake line'
    const drawn = draw([configuration('c')], [instance('c-1', 'c', { UDEV_DEVNODE: evil })], {
      lines: [evil],
    }).join('\n')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of these may be in the output
    expect(drawn).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f\u0080-\u009f]/)
    expect(drawn.split('\n').some((line) => line.startsWith('fake line'))).toBe(false)
  })
})
