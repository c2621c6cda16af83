import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { type Device, DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { openDiscovery, type ReportedDevices } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import { onTestFinished } from 'vitest'
import type { MessageSource } from '../device-monitor.js'
import { createUdevHandler } from '../handler.js'
import { ManualMonitor } from './manual-monitor.js'
import { SysfsFolder } from './sysfs-folder.js'

export const TTY = '/devices/pci0000:00/0000:00:05.0/usb1/1-2/1-2:1.0/ttyUSB0/tty/ttyUSB0'
/** The record of udevd of that device. */
export const RECORD = ['I:5000', 'E:ID_SERIAL=FTDI77', 'V:1']

/** The handler on a machine whose devices, events and clock a test controls. */
export class InventoryHarness {
  readonly tree = new SysfsFolder()
  readonly monitor = new ManualMonitor()
  readonly clock = new ManualClock()
  readonly stop = new AbortController()
  handler: ReturnType<typeof createUdevHandler>
  /** The number of the last event of the kernel. */
  sequence = 0
  /** What the last list does not have, and why. */
  leftOut: string[] = []
  /** The processor time of each look, in milliseconds. */
  lookCostMs = 0

  constructor() {
    const { tree, monitor, clock } = this
    let processorMs = 0
    this.handler = createUdevHandler({
      ...tree.roots,
      monitor,
      clock,
      processorMs: () => {
        processorMs += this.lookCostMs
        return processorMs
      },
      uptimeMs: () => this.uptimeMs(),
    })
  }

  /** The machine runs for longer than the handler. */
  uptimeMs(): number {
    return 600_000 + this.clock.monotonicMs()
  }

  async close(): Promise<void> {
    this.stop.abort()
    await this.clock.advance(0)
    this.tree.remove()
  }

  /** The lists of a Configuration, as the paths of devices with their numbers of nodes. */
  async discover(details: object): Promise<string[][]> {
    const lists: string[][] = []
    const read = async () => {
      const request = {
        details: JSON.stringify(details),
        properties: new DiscoveryProperties(),
        signal: this.stop.signal,
        log: silentLogger,
        onLeftOut: ({ devices }: ReportedDevices) => {
          this.leftOut = devices.map(({ id, reason }) => `${path.basename(id)}: ${reason}`)
        },
      }
      for await (const list of openDiscovery(this.handler, request)) lists.push(list.map(shown))
    }
    void read()
    for (let turn = 0; lists.length === 0 && turn < 1000; turn++) await this.clock.advance(0)
    return lists
  }

  async send(
    source: MessageSource,
    action: string,
    devpath: string,
    subsystem: string,
  ): Promise<void> {
    if (source === 'kernel') this.sequence++
    const properties = new Map([
      ['SUBSYSTEM', subsystem],
      ['SEQNUM', `${this.sequence}`],
    ])
    await this.monitor.tell({ kind: 'events', events: [{ source, action, devpath, properties }] })
    await this.clock.advance(0)
  }

  /** Starts a udevd whose events the handler waits for. It ends with the test. */
  async udevdInThisNetwork(): Promise<void> {
    const udevd = net.createServer()
    onTestFinished(() => void udevd.close())
    mkdirSync(this.tree.roots.runUdevRoot, { recursive: true })
    udevd.listen(path.join(this.tree.roots.runUdevRoot, 'control'))
    await once(udevd, 'listening')
  }

  /** Adds {@link TTY}. */
  addTty(): void {
    const uevent = { MAJOR: '188', MINOR: '0', DEVNAME: 'ttyUSB0' }
    this.tree.add(TTY, { class: 'tty', uevent })
  }
}

const shown = ({ id, deviceSpecs = [] }: Device) => `${path.basename(id)} ${deviceSpecs.length}`
