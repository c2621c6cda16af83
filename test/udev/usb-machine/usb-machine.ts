import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { withTimeLimit } from '@akrijs/runtime'
import { Guest } from '../guest.js'
import { type KernelImage, writeInitramfs } from './kernel-image.js'
import { connected, QemuError, Qmp } from './qmp.js'

/** The path of the machine's USB controller; its high-speed bus is the first. */
export const BUS = '/devices/pci0000:00/0000:00:10.0/usb1'

const BOOT_MS = 240_000

/** A device to plug in. */
export interface UsbDevice {
  /** QEMU's name of the device type, such as `usb-kbd`. */
  readonly kind: string
  /** `3` is the third port of the machine. */
  readonly port: string
  /** Further properties for QEMU, such as `serial`. */
  readonly [property: string]: string | boolean
}

/**
 * A disposable machine with a USB bus, emulated by QEMU: Debian's kernel, a real udevd, read access
 * to the file tree of this machine, and the built udev handler. Needs no root. {@link stop} and the
 * end of this process remove everything.
 */
export class UsbMachine {
  readonly #directory: string
  readonly #qemu: ChildProcess
  readonly #exited: Promise<unknown>
  #qmp: Qmp | undefined
  #guest: Guest | undefined

  /** Ready when its udevd processed the initial devices. */
  static async boot(image: KernelImage): Promise<UsbMachine> {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-usb-'))
    mkdirSync(path.join(directory, 'stage'))
    copyFileSync(
      path.join(import.meta.dirname, 'stage2.sh'),
      path.join(directory, 'stage/stage2.sh'),
    )
    const guest = path.dirname(import.meta.dirname)
    const settings = `AKRI_NODE='${process.execPath}'\nAKRI_GUEST='${guest}'\n`
    writeFileSync(path.join(directory, 'stage/settings'), settings)
    await writeInitramfs(image, path.join(directory, 'initramfs'))
    const machine = new UsbMachine(directory, image)
    try {
      await machine.#connect()
      return machine
    } catch (error) {
      const output = machine.#console()
      await machine.stop()
      throw new QemuError(`the machine did not boot. It said last:\n${output}`, { cause: error })
    }
  }

  private constructor(directory: string, image: KernelImage) {
    this.#directory = directory
    // The machine must not outlive this process.
    const command = [
      '--pdeathsig',
      'KILL',
      'qemu-system-x86_64',
      ...qemuArguments(directory, image),
    ]
    this.#qemu = spawn('setpriv', command, { stdio: ['ignore', 'ignore', 'inherit'] })
    this.#exited = once(this.#qemu, 'exit')
  }

  /** Returns after the plug; the kernel of the machine needs some 0.3 s more. */
  async plug({ kind, port, ...properties }: UsbDevice): Promise<void> {
    await this.execute('device_add', {
      driver: kind,
      id: idOf(port),
      bus: 'xhci.0',
      port,
      ...properties,
    })
  }

  async unplug(port: string): Promise<void> {
    await this.execute('device_del', { id: idOf(port) })
  }

  /** A command of QEMU's machine protocol. */
  async execute(command: string, args?: Readonly<Record<string, unknown>>): Promise<void> {
    if (this.#qmp === undefined) throw new QemuError('the machine is not ready')
    await this.#qmp.execute(command, args)
  }

  /** The program that runs in the machine. */
  get guest(): Guest {
    if (this.#guest === undefined) throw new QemuError('the machine is not ready')
    return this.#guest
  }

  async stop(): Promise<void> {
    this.#qmp?.close()
    this.#guest?.close()
    this.#qemu.kill('SIGKILL')
    await this.#exited
    rmSync(this.#directory, { recursive: true, force: true })
  }

  async #connect(): Promise<void> {
    const stop = new AbortController()
    void this.#exited.then(() => stop.abort())
    await withTimeLimit(BOOT_MS, stop.signal, async (signal) => {
      this.#qmp = await Qmp.open(path.join(this.#directory, 'qmp'), signal)
      const control = await connected(path.join(this.#directory, 'control'), signal)
      this.#guest = new Guest(control, control)
      await this.#guest.ready(signal)
    })
  }

  #console(): string {
    return readFileSync(path.join(this.#directory, 'console'), 'utf8').slice(-3000)
  }
}

const idOf = (port: string) => `port-${port}`

function qemuArguments(directory: string, { kernel, modules }: KernelImage): string[] {
  // Without `remap`, files of different disks could have the same number.
  const share = (tag: string, tree: string) => [
    ...['-fsdev', `local,id=${tag},path=${tree},security_model=none,readonly=on,multidevs=remap`],
    ...['-device', `virtio-9p-pci,fsdev=${tag},mount_tag=${tag}`],
  ]
  return [
    ...['-accel', 'tcg,thread=multi', '-cpu', 'max', '-machine', 'q35', '-m', '1024', '-smp', '2'],
    ...['-nodefaults', '-no-user-config', '-display', 'none', '-nic', 'none', '-no-reboot'],
    ...['-kernel', kernel, '-initrd', path.join(directory, 'initramfs')],
    // A suspended emulated hub does not always wake up, and the kernel then waits for minutes.
    ...[
      '-append',
      'console=ttyS0 quiet panic=-1 tsc=unstable usbcore.autosuspend=-1',
      '-serial',
      `file:${path.join(directory, 'console')}`,
    ],
    ...['-qmp', `unix:${path.join(directory, 'qmp')},server=on,wait=off`],
    ...share('host', '/'),
    ...share('modules', modules),
    ...share('stage', path.join(directory, 'stage')),
    ...['-device', 'virtio-serial-pci'],
    ...['-chardev', `socket,id=control,path=${path.join(directory, 'control')},server=on,wait=off`],
    ...['-device', 'virtserialport,chardev=control,name=control'],
    ...['-device', 'qemu-xhci,id=xhci,addr=10.0,p2=15,p3=1'],
  ]
}
