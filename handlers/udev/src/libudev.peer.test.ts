import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { messageOf } from '@akrijs/sdk'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { DeviceTree, SYSTEM_ROOTS } from './device-tree.js'

// libudev is the reference. The npm package `udev` is built from source on first use and kept. It
// runs in its own process, as it can crash.

const exec = promisify(execFile)
const ORACLE = path.resolve(import.meta.dirname, '../../../node_modules/.cache/akri-oracle')
const ASK = 'process.stdout.write(JSON.stringify(require("udev").list()))'
const RECORDED = path.resolve(import.meta.dirname, '../recorded')

const missing = [
  '/usr/include/libudev.h',
  '/usr/bin/g++',
  '/usr/bin/python3',
  '/usr/bin/make',
].filter((file) => !existsSync(file))
const umockdev = spawnSync('umockdev-run', ['--version']).status === 0
const udevd = '/lib/systemd/systemd-udevd'
const namespaces =
  existsSync(udevd) && spawnSync('unshare', ['--mount', '--net', 'true']).status === 0

type Properties = Readonly<Record<string, string>>

describe.skipIf(missing.length > 0)(
  'compared with libudev (needs libudev-dev, g++, make, python3)',
  () => {
    let directory: string
    let failure: string | undefined

    beforeAll(async () => {
      directory = mkdtempSync(path.join(os.tmpdir(), 'akri-libudev-'))
      if (existsSync(path.join(ORACLE, 'node_modules/udev/build/Release/udev.node'))) return
      mkdirSync(ORACLE, { recursive: true })
      const manifest = {
        private: true,
        dependencies: { udev: '1.0.1' },
        allowScripts: { udev: true },
      }
      writeFileSync(path.join(ORACLE, 'package.json'), JSON.stringify(manifest))
      try {
        await exec('npm', ['install', '--no-audit', '--no-fund'], { cwd: ORACLE })
      } catch (error) {
        failure = messageOf(error)
      }
    })

    beforeEach((context) => {
      if (failure !== undefined)
        context.skip(`the npm package udev cannot be installed: ${failure}`)
    })

    afterAll(() => rmSync(directory, { recursive: true, force: true }))

    it.skipIf(!namespaces)(
      'D1 finds the same devices with udevd and its database (needs root and udevd)',
      async () => {
        const run = path.join(directory, 'udev')
        const script = `
      set -e; before=
      mount --make-rprivate /
      mkdir -p ${run}
      mount -t tmpfs tmpfs /run
      mount -t tmpfs tmpfs /dev
      mknod /dev/null c 1 3; mknod /dev/urandom c 1 9; chmod 666 /dev/null /dev/urandom
      ${udevd} >/dev/null 2>&1 &
      for i in $(seq 100); do [ -S /run/udev/control ] && break; sleep 0.05; done
      udevadm trigger --action=add >/dev/null 2>&1
      # It may settle before udevd has seen the first event.
      for i in $(seq 50); do
        udevadm settle --timeout=30
        now=$(ls /run/udev/data | wc -l); [ "$now" -gt 0 ] && [ "$now" = "$before" ] && break
        before=$now; sleep 0.3
      done
      cp -a /run/udev/data ${run}/data
      exec ${process.execPath} -e '${ASK}'`
        const before = await libudev()
        const { stdout } = await exec(
          'unshare',
          ['--mount', '--net', '--pid', '--fork', '--kill-child', 'sh', '-c', script],
          {
            cwd: ORACLE,
            maxBuffer: 1 << 26,
          },
        )
        const expected = devicesOf(stdout)
        expect(
          [...expected.values()].filter((device) => 'USEC_INITIALIZED' in device).length,
        ).toBeGreaterThan(10)
        // The network links belong to the other namespace.
        const links = (devices: ReadonlyMap<string, Properties>) =>
          new Map(
            [...devices].filter(
              ([, device]) =>
                device.SUBSYSTEM !== 'net' &&
                !('IFINDEX' in device) &&
                device.SUBSYSTEM !== 'queues',
            ),
          )
        const found = await ours({ ...SYSTEM_ROOTS, runUdevRoot: run })
        const there = common(before, await libudev())
        expect(common(links(found), there)).toEqual(common(links(expected), there))
      },
    )

    it.skipIf(!umockdev).each(readdirSync(RECORDED))(
      'D1 finds the same devices in the recording %s (needs umockdev)',
      async (file) => {
        const tree = path.join(directory, file)
        mkdirSync(tree)
        const script =
          `env -u LD_PRELOAD cp -a "$UMOCKDEV_DIR/." ${tree} && exec ${process.execPath} -e ` +
          `'${ASK}'`
        const { stdout } = await exec(
          'umockdev-run',
          ['-d', path.join(RECORDED, file), '--', 'sh', '-c', script],
          {
            cwd: ORACLE,
            maxBuffer: 1 << 26,
          },
        )
        const expected = devicesOf(stdout)
        expect(expected.size).toBeGreaterThan(3)
        expect(
          await ours({
            sysfsRoot: path.join(tree, 'sys'),
            runUdevRoot: path.join(tree, 'run/udev'),
          }),
        ).toEqual(expected)
      },
    )
  },
)

/** The devices that libudev finds on this machine. */
async function libudev(): Promise<Map<string, Properties>> {
  const { stdout } = await exec(process.execPath, ['-e', ASK], { cwd: ORACLE, maxBuffer: 1 << 26 })
  return devicesOf(stdout)
}

/** The devices that are in both lists: other programs may add and remove devices meanwhile. */
function common(
  devices: ReadonlyMap<string, Properties>,
  others: ReadonlyMap<string, Properties>,
): Map<string, Properties> {
  return new Map([...devices].filter(([id]) => others.has(id)))
}

async function ours(roots: typeof SYSTEM_ROOTS): Promise<Map<string, Properties>> {
  const tree = new DeviceTree(roots)
  await tree.lookAtAll()
  const devices = [...tree.listed].flatMap((devpath) => tree.device(devpath) ?? [])
  return byPath(devices.map((device) => Object.fromEntries(device.properties)))
}

function devicesOf(json: string): Map<string, Properties> {
  const list: Record<string, string>[] = JSON.parse(json)
  return byPath(list.map(({ syspath: _, ...properties }) => properties))
}

function byPath(devices: readonly Properties[]): Map<string, Properties> {
  return new Map(
    devices
      .map((device): [string, Properties] => [device.DEVPATH ?? '', sorted(device)])
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )
}

/** libudev keeps tags and links in hash sets, so their order varies. */
function sorted(device: Properties): Properties {
  const lists: Record<string, string> = { TAGS: ':', CURRENT_TAGS: ':', DEVLINKS: ' ' }
  return Object.fromEntries(
    Object.entries(device).map(([name, value]) => {
      const separator = lists[name]
      return [name, separator === undefined ? value : value.split(separator).sort().join(separator)]
    }),
  )
}
