// The process of the npm package usb, which lists the devices of the buses: after each plug and
// unplug, and from time to time, as not every machine tells the package of these. The package can
// end its process, such as when it listens on a machine without a bus.
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LibraryMessage } from './usb-library.js'
import { propertiesOf, type UsbProperties } from './usb-properties.js'

/** Between two lists without an event, in milliseconds. */
const POLL_MS = 10_000
/** From an event to the list, in milliseconds: the kernel has yet to set up the interfaces. */
const SETTLE_MS = 100

const sysfs = process.platform === 'linux' ? '/sys/bus/usb/devices' : undefined
/** On other systems than Linux a device may be opened: once for each plug. */
let known: ReadonlyMap<string, UsbProperties> = new Map()

process.on('disconnect', () => process.exit())
process.on('uncaughtException', (error) => {
  send({ problem: error.message }, () => process.exit(1))
})
const { usb } = await import('usb').catch((error: Error) => {
  const system = `${process.platform}-${process.arch}`
  throw new Error(`no binary for ${system} can be loaded: ${error.message}`, { cause: error })
})
let wake = new AbortController()
const onEvent = () => wake.abort()
for (;;) {
  wake = new AbortController()
  const hasBus = sysfs === undefined || existsSync(sysfs)
  if (hasBus) {
    // Both calls listen once, however often they are made.
    usb.addEventListener('connect', onEvent)
    usb.addEventListener('disconnect', onEvent)
    const devices = (await usb.getDevices()).map((device) => {
      const before = sysfs === undefined ? known.get(device.handle) : undefined
      return [device.handle, before ?? propertiesOf(device, sysfs)] as const
    })
    known = new Map(devices)
  }
  send({ devices: hasBus ? [...known.values()] : [], hasBus })
  await sleep(POLL_MS, undefined, { signal: wake.signal }).catch(() => sleep(SETTLE_MS))
}

function send(message: LibraryMessage, onSent?: () => void): void {
  process.send?.(message, undefined, undefined, onSent)
}
