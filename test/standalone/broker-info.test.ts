import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { load } from 'js-yaml'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram, root } from './support/akri-program.js'

const example = (name: string) => path.join(root, 'examples/firmware-report', name)

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

const info = async () =>
  Object.fromEntries(
    (await akri.instances()).map(({ spec, status }) => [
      spec.brokerProperties.DEBUG_ECHO_DESCRIPTION,
      status?.brokerInfo ?? {},
    ]),
  )

/** A Configuration of one device whose broker runs a script. */
function configuration(kind: 'Pod' | 'Job', script: string): Promise<string> {
  const spec = { containers: [{ name: 'b', command: ['/bin/sh', '-c', script] }] }
  const brokerSpec =
    kind === 'Pod' ? { brokerPodSpec: spec } : { brokerJobSpec: { template: { spec } } }
  const discoveryHandler = { name: 'debugEcho', discoveryDetails: 'descriptions: [foo0]' }
  const object = {
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name: 'lab' },
    spec: { discoveryHandler, brokerSpec },
  }
  return akri.write('lab.yaml', JSON.stringify(object))
}

describe('brokers of one machine', () => {
  it('R68 R69 R74 report the firmware version of their device: the example', async () => {
    const file = path.join(akri.directory, 'example.yaml')
    await copyFile(example('echo-firmware.yaml'), file)
    akri.start('-f', file)
    await eventually(async () =>
      expect(await info()).toEqual({
        'camera at the gate 2.4.1': { 'firmware-version': '2.4.1' },
        'camera at the door 2.5.0': { 'firmware-version': '2.5.0' },
      }),
    )
    const [first] = await akri.instances()
    expect(
      load(await akri.ask('get', 'instances', String(first?.metadata.name), '-o', 'yaml')),
    ).toMatchObject({
      status: { brokerInfo: { 'firmware-version': expect.any(String) } },
    })
    expect(await akri.ask('describe', 'instance', String(first?.metadata.name))).toMatch(
      /REPORTED +CONTENT\nfirmware-version +2\.[45]/,
    )
  })

  it('R69 have their reports shown until they end, and R70 leave no files', async () => {
    const end = path.join(akri.directory, 'end')
    const report = 'echo done >$AKRI_BROKER_INFO_DIRECTORY/state'
    const script = `${report}; until [ -e ${end} ]; do sleep 0.1; done`
    akri.start('-f', await configuration('Job', script))
    await eventually(async () => expect(await info()).toEqual({ foo0: { state: 'done\n' } }))
    await writeFile(end, '')
    await eventually(async () => expect(await info()).toEqual({ foo0: {} }))
    await eventually(() => expect(akri.output).toContain('job completed'))
    await eventually(async () =>
      expect(await readdir(path.join(akri.state, 'broker-info'))).toEqual([]),
    )
  })

  it('R69 start without old reports after the agent was killed', async () => {
    const script =
      'cd $AKRI_BROKER_INFO_DIRECTORY; n=$(ls -A | wc -l); echo $n >found; exec sleep 1000'
    akri.start('-f', await configuration('Pod', script))
    await eventually(async () => expect(await info()).toEqual({ foo0: { found: '0\n' } }))
    const file = path.join(akri.state, 'broker-info/default_lab-8120fe-0/stale')
    await writeFile(file, 'of the broker before')
    await akri.stop('SIGKILL')
    akri.start('-f', path.join(akri.directory, 'lab.yaml'))
    await eventually(() => expect(existsSync(file)).toBe(false))
    await eventually(async () => expect(await info()).toEqual({ foo0: { found: '0\n' } }))
  })

  it('R74 read the kernel attributes of a USB device: the example', async () => {
    const { spec } = load(await readFile(example('usb-firmware.yaml'), 'utf8')) as {
      spec: {
        brokerSpec: {
          brokerJobSpec: { template: { spec: { containers: { command: string[] }[] } } }
        }
      }
    }
    const [file = '', ...args] =
      spec.brokerSpec.brokerJobSpec.template.spec.containers[0]?.command ?? []
    const [device, reports] = [
      path.join(akri.directory, 'sys/devices/usb1/1-1'),
      path.join(akri.directory, 'reports'),
    ]
    await mkdir(device, { recursive: true })
    await mkdir(reports)
    await writeFile(path.join(device, 'bcdDevice'), '0210\n')
    await writeFile(path.join(device, 'product'), 'C922 Pro Stream Webcam\n')
    const env = {
      SYSFS: path.join(akri.directory, 'sys'),
      UDEV_DEVPATH: '/devices/usb1/1-1',
      AKRI_BROKER_INFO_DIRECTORY: reports,
      REPORT_SECONDS: '0',
      PATH: process.env.PATH,
    }
    execFileSync(file, args, { env })
    const written = (await readdir(reports)).map(async (name) => [
      name,
      await readFile(path.join(reports, name), 'utf8'),
    ])
    expect(Object.fromEntries(await Promise.all(written))).toEqual({
      'firmware-version': '2.10',
      product: 'C922 Pro Stream Webcam',
    })
  })
})
