import { execFileSync } from 'node:child_process'
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram, root } from './support/akri-program.js'

const example = (name: string) => path.join(root, 'examples/firmware-report', name)

const akri = AkriProgram.ofEachTest()

const info = async () =>
  Object.fromEntries(
    (await akri.instances()).map(({ spec, status }) => [
      spec.brokerProperties.DEBUG_ECHO_DESCRIPTION,
      status?.brokerInfo ?? {},
    ]),
  )

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
