import { defineDiscoveryHandler, fitIntoList } from '@akrijs/sdk'
import { usbDetails } from './details.js'
import { usbDevices } from './usb-devices.js'
import { followBus } from './usb-library.js'

/** For tests. */
export interface UsbHandlerOptions {
  /** Tells what is plugged in. @default the npm package `usb` in a process of its own */
  readonly follow?: typeof followBus
}

/** A handler that finds the USB devices of its machine. */
export function createUsbHandler({ follow = followBus }: UsbHandlerOptions = {}) {
  return defineDiscoveryHandler({
    name: 'usb',
    shared: false,
    details: usbDetails,
    async *discover({ details, signal, leaveOut, remark }) {
      for await (const { devices: plugged, hasBus } of follow(signal)) {
        const { devices, leftOut, hubs } = usbDevices(plugged, details)
        for (const { id, reason, detail } of leftOut) leaveOut(id, reason, detail)
        if (!hasBus) remark('this machine has no USB bus: there is no /sys/bus/usb')
        else if (devices.length + leftOut.length === 0)
          remark(`nothing is plugged in but ${hubs} USB hubs`)
        yield fitIntoList(devices).devices
      }
    },
  })
}
