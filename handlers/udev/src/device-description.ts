import type { Device, DeviceSpec, DiscoveryProperties } from '@akrijs/sdk'
import { escapeBytes } from './byte-text.js'
import type { DeviceGroup } from './device-group.js'
import { iommuGroup, pciAddress } from './pci-passthrough.js'

interface DescriptionOptions {
  readonly grouped: boolean
  readonly permissions: string
  /**
   * A resource name for the environment variables that VM brokers expect, such as
   * `akri.sh/udev-mouse`; from `devicePluginResourceName`.
   */
  readonly resourceName: string | undefined
  /** From the property `vfioPassthrough`. */
  readonly vfioPassthrough: boolean
}

/** Reads the options that come as discovery properties. */
export function optionsFrom(
  properties: DiscoveryProperties,
): Pick<DescriptionOptions, 'resourceName' | 'vfioPassthrough'> {
  // Files of Secrets and ConfigMaps often end with a newline.
  const resourceName = properties.text('devicePluginResourceName')?.trim() || undefined
  const vfio = properties.text('vfioPassthrough')?.trim().toLowerCase() === 'true'
  return { resourceName, vfioPassthrough: vfio && resourceName !== undefined }
}

/** The device of a group. Akri uses the same names of properties and resources. */
export function describeGroup(group: DeviceGroup, options: DescriptionOptions): Device {
  const { members } = group
  const id = escapeBytes(group.id)
  const properties: Record<string, string> = { UDEV_DEVPATH: id }
  const specs = new Map<string, DeviceSpec>()
  const addSpec = (path: string, permissions: string) =>
    specs.set(path, { containerPath: path, hostPath: path, permissions })
  const suffix = (index: number) => (options.grouped ? `_${index}` : '')

  const resource = options.resourceName?.toUpperCase().replace(/[./]/g, '_')

  const nodes = members.flatMap(({ devnode }) => (devnode === undefined ? [] : [devnode]))
  for (const [index, devnode] of nodes.entries()) {
    properties[`UDEV_DEVNODE${suffix(index)}`] = devnode
    addSpec(devnode, options.permissions)
    const address = usbAddress(devnode)
    if (resource !== undefined && address !== undefined)
      properties[`USB_RESOURCE_${resource}${suffix(index)}`] = address
  }
  const address = pciAddress(id)
  if (resource !== undefined && address !== undefined) {
    // Akri reads the link of the device that names the Instance, not of its parts.
    const [top] = members
    const shared = options.vfioPassthrough ? iommuGroup(top) : undefined
    const functions =
      shared === undefined ? [] : members.filter((each) => iommuGroup(each) === shared)
    const addresses = functions.flatMap(({ devpath }) => pciAddress(devpath) ?? [])
    properties[`PCI_RESOURCE_${resource}`] = [...new Set([address, ...addresses])].join(',')
    if (top !== undefined && shared !== undefined) {
      addSpec(top.vfioNode(shared), 'rwm')
      addSpec('/dev/vfio/vfio', 'rwm')
    }
  }
  return { id, properties, deviceSpecs: [...specs.values()] }
}

/** The text `<bus>:<device>` in decimal for a node such as /dev/bus/usb/001/012. */
function usbAddress(devnode: string): string | undefined {
  const found = /^\/dev\/bus\/usb\/0*(\d+)\/0*(\d+)$/.exec(devnode)
  return found === null ? undefined : `${found[1]}:${found[2]}`
}
