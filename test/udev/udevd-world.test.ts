import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { Guest } from './guest.js'

// Recorded hardware with a real udevd, its rules, database and event group. Everything stays in the
// namespaces.

const RECORDED = path.resolve(import.meta.dirname, '../../handlers/udev/recorded')
const NAMESPACES = ['--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc']
/** The kernel's part of a device; the rest of a recording comes from udevd. */
const FROM_KERNEL = new Set(
  (
    'SUBSYSTEM DEVTYPE DEVNAME MAJOR MINOR BUSNUM DEVNUM ' +
    'PRODUCT TYPE DRIVER INTERFACE MODALIAS NAME PHYS'
  ).split(' '),
)
/** Rules of an operator. */
const OPERATOR_RULES =
  'SUBSYSTEM=="tty", ENV{ID_VENDOR_ID}=="0403", TAG+="akri", ENV{AKRI_BAY}="7"\n'

const has = (command: string, ...args: string[]) => spawnSync(command, args).status === 0
const missing = [
  ...(has('unshare', ...NAMESPACES, 'true') ? [] : ['root']),
  ...(existsSync('/lib/systemd/systemd-udevd') ? [] : ['the Debian package udev']),
  ...(has('umockdev-run', '--version') ? [] : ['the Debian package umockdev']),
  ...(has('python3', '--version') ? [] : ['the Debian package python3']),
]

type Event = Readonly<Record<string, string>>

class UdevdWorld {
  readonly guest: Guest
  readonly #directory: string
  readonly #process: ChildProcess
  /** The devices of the recording in the order of the kernel, parents first. */
  readonly #devices: readonly Event[]

  static async open(recording: string): Promise<UdevdWorld> {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-world-'))
    mkdirSync(path.join(directory, 'rules.d'))
    writeFileSync(path.join(directory, 'rules.d/95-akri.rules'), OPERATOR_RULES)
    const file = path.join(RECORDED, recording)
    // umockdev creates the tree; later programs run without umockdev.
    const copy = [
      'env',
      '-u',
      'LD_PRELOAD',
      'sh',
      '-c',
      'cp -a "$UMOCKDEV_DIR/sys" "$UMOCKDEV_DIR/dev" "$0"',
      directory,
    ]
    await promisify(execFile)('umockdev-run', ['-d', file, '--', ...copy])
    const devices = devicesOf(readFileSync(file, 'utf8'))
    for (const { DEVPATH = '', SUBSYSTEM: _, ...rest } of devices) {
      // umockdev writes the properties of udevd into the file of the kernel.
      const lines = Object.entries(rest).map(([name, value]) => `${name}=${value}\n`)
      writeFileSync(path.join(directory, 'sys', DEVPATH, 'uevent'), lines.join(''))
    }
    const world = new UdevdWorld(directory, devices)
    await world.guest.ready(AbortSignal.timeout(30_000))
    return world
  }

  private constructor(directory: string, devices: readonly Event[]) {
    this.#directory = directory
    this.#devices = devices
    const world = path.join(import.meta.dirname, 'udevd-world.sh')
    const guest = [process.execPath, path.join(import.meta.dirname, 'guest-program.mjs')]
    const child = spawn('unshare', [...NAMESPACES, world, directory, ...guest], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#process = child
    this.guest = new Guest(child.stdout, child.stdin)
  }

  /**
   * Sends the events of the kernel for all devices: parents first when added, last when removed.
   */
  async tell(action: 'add' | 'change' | 'remove'): Promise<void> {
    const events = this.#devices.map((device) => ({ ACTION: action, ...device }))
    await this.#inject(action === 'remove' ? events.reverse() : events)
  }

  async close(): Promise<void> {
    this.guest.close()
    if (this.#process.exitCode === null && this.#process.signalCode === null)
      await once(this.#process, 'exit')
    rmSync(this.#directory, { recursive: true, force: true })
  }

  async #inject(events: readonly Event[]): Promise<void> {
    await this.guest.run(
      `python3 ${path.join(import.meta.dirname, 'inject-uevents.py')}`,
      JSON.stringify(events),
    )
  }
}

describeUnless(missing, 'the udev handler beside a udevd', () => {
  let world: UdevdWorld | undefined

  afterEach(async () => {
    await world?.close()
    world = undefined
  })

  it('finds devices by tags and properties of rules, also after a change', async () => {
    world = await UdevdWorld.open('usb-serial.umockdev')
    const seventh = await world.guest.watch({ udevRules: ['TAG=="akri", ENV{AKRI_BAY}=="7"'] })
    const eighth = await world.guest.watch({
      udevRules: ['TAGS=="akri", SUBSYSTEM=="tty", ENV{AKRI_BAY}=="8"'],
    })
    await world.tell('add')
    const tty = '/devices/pci0000:00/0000:00:05.0/usb1/1-2/1-2:1.0/ttyUSB0/tty/ttyUSB0'
    await seventh.untilIds([tty])
    expect(eighth.ids).toEqual([])
    await world.guest.run(
      `sed -i 's/"7"/"8"/' /run/udev/rules.d/95-akri.rules && udevadm control --reload`,
    )
    await world.tell('change')
    await Promise.all([seventh.untilIds([]), eighth.untilIds([tty])])
    await world.guest.run('echo >/run/udev/rules.d/95-akri.rules && udevadm control --reload')
    await world.tell('change')
    await eighth.untilIds([])
  })

  it('finds a device when the programs of its rules have ended', async () => {
    world = await UdevdWorld.open('usb-serial.umockdev')
    // udevd writes the record of the device before it runs the program.
    const program = "/bin/sh -c 'sleep 3; echo ended >/run/program'"
    await world.guest.run(
      'cat >/run/udev/rules.d/96-akri.rules && udevadm control --reload',
      `ACTION=="add", SUBSYSTEM=="tty", RUN+="${program}"\n`,
    )
    await world.guest.run('mv /sys/class/tty/ttyUSB0 /run/entry')
    const lists = await world.guest.watch({ udevRules: ['SUBSYSTEM=="tty"'] })
    expect(lists.ids).toEqual([])
    await world.guest.run('mv /run/entry /sys/class/tty/ttyUSB0')
    await world.tell('add')
    await world.guest.run('while [ ! -e /run/udev/data/c188:0 ]; do sleep 0.05; done')
    // A further Configuration causes a look at everything.
    const during = await world.guest.watch({ udevRules: ['SUBSYSTEM=="tty"'] })
    expect([lists.ids, during.ids]).toEqual([[], []])
    for (const each of [lists, during])
      await each.until('the adapter', ({ devices }) => devices.length === 1)
    expect(await world.guest.run('cat /run/program')).toBe('ended\n')
  })
})

function devicesOf(recording: string): Event[] {
  const devices: Record<string, string>[] = []
  for (const line of recording.split('\n')) {
    const [, kind, text = ''] = /^([PE]): (.*)$/.exec(line) ?? []
    if (kind === 'P') devices.push({ DEVPATH: text })
    const [name = '', value = ''] = text.split(/=(.*)/s)
    const device = devices.at(-1)
    // The kernel names nodes relative to /dev.
    if (kind === 'E' && device !== undefined && FROM_KERNEL.has(name))
      device[name] = value.replace(/^\/dev\//, '')
  }
  return devices.sort((a, b) => ((a.DEVPATH ?? '') < (b.DEVPATH ?? '') ? -1 : 1))
}
