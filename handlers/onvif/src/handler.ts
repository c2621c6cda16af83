import { type Clock, defineDiscoveryHandler, fitIntoList, systemClock } from '@akrijs/sdk'
import {
  HostNames,
  machineAddresses,
  machineNetworks,
  passesFilter,
  plainAddress,
  readNetworks,
} from '@akrijs/sdk/network'
import { cameraCredentials } from './credentials.js'
import { type OnvifDetails, onvifDetails } from './details.js'
import { detailsWarnings, limitedTimeoutSeconds } from './details-warnings.js'
import { readCamera } from './device/camera.js'
import { bareHardwareAddress } from './device/hardware-address.js'
import { describeCamera } from './device-description.js'
import { discoverCameras } from './discovery/camera-discovery.js'
import type { CameraAnnouncement } from './discovery/camera-entry.js'
import type { Camera } from './discovery/camera-set.js'
import { ROUND_MS } from './limits.js'
import { NetworkPolicy } from './network-policy.js'

/** For tests. */
export interface OnvifHandlerOptions {
  /** @default systemClock */
  readonly clock?: Clock
  /** From the start of a round to the start of the next, in milliseconds. @default 10000 */
  readonly intervalMs?: number
}

/** A handler that finds IP cameras by WS-Discovery and reads their facts by ONVIF. */
export function createOnvifHandler({
  clock = systemClock,
  intervalMs = ROUND_MS,
}: OnvifHandlerOptions = {}) {
  // All Configurations share the names, because most of them hear of the same cameras.
  const hostNames = new HostNames({ clock })
  return defineDiscoveryHandler({
    name: 'onvif',
    shared: true,
    details: onvifDetails,
    warnings: detailsWarnings,
    async *discover({ details, properties, signal, log, leaveOut, reportProblem, remark }) {
      for (const { path, message } of detailsWarnings(details))
        log.warn({ field: path, problem: message }, 'details questionable')
      const credentials = cameraCredentials(properties, log)
      const { certificates, certificateAuthorities: authorities, mediaProfiles } = details
      const lists = discoverCameras({
        identity: details.deviceId,
        secureFirst: certificates === 'verify',
        refreshMs: details.refreshSeconds * 1000,
        excludedBy: (announcement) => announcementFilter(announcement, details),
        interfaces: details.interfaces,
        probeAddresses: details.probeAddresses,
        currentPolicy: () => policyFor(details, hostNames),
        read: (request, policy) => {
          const options = { policy, certificates, authorities, mediaProfiles }
          return readCamera({ ...request, credentials, options, log, clock })
        },
        windowMs: limitedTimeoutSeconds(details) * 1000,
        intervalMs,
        clock,
        log,
        signal,
      })
      for await (const { cameras, leftOut, remarks } of lists) {
        for (const { id, reason, detail } of leftOut) leaveOut(id, reason, detail)
        const accepted = cameras.filter((camera) => {
          const filter = factsFilter(camera, details)
          if (filter !== undefined) leaveOut(`${camera.uuid} at ${camera.url}`, ...filter)
          return filter === undefined
        })
        const described = accepted.map((camera) => describeCamera(camera, details))
        const facts = new Map(described.map(({ id }, index) => [id, accepted[index]?.facts]))
        const list = fitIntoList(described)
        for (const { id } of list.devices) {
          const { authentication, unreachable = [] } = facts.get(id) ?? {}
          if (authentication === 'refused') reportProblem(id, 'credential refused')
          else if (unreachable.length > 0)
            reportProblem(id, 'media not reachable', unreachable.join('; '))
        }
        if (list.leftOut > 0) {
          const offered = new Set(list.devices.map(({ id }) => id))
          for (const { id } of described) if (!offered.has(id)) leaveOut(id, 'device list full')
          log.warn(
            { offered: offered.size, leftOut: list.leftOut },
            'device list exceeded its limit',
          )
        }
        if (list.devices.length === 0) for (const text of remarks) remark(text)
        yield list.devices
      }
    },
  })
}

/** The filter that excludes a camera before it is called. */
function announcementFilter(
  { uuid, scopes }: CameraAnnouncement,
  details: OnvifDetails,
): 'uuids' | 'scopes' | undefined {
  if (!passesFilter(details.uuids, uuid)) return 'uuids'
  return passesFilter(details.scopes, scopes.length > 0 ? scopes : undefined) ? undefined : 'scopes'
}

/** The filter that excludes a camera by its facts, and the value. */
function factsFilter(
  { facts }: Camera,
  details: OnvifDetails,
): readonly [reason: string, detail: string] | undefined {
  const { ipAddress, macAddress, authentication } = facts
  const detailOf = (value: string | undefined) =>
    value ?? `the camera does not tell it; authentication: ${authentication}`
  if (!passesFilter(details.ipAddresses, ipAddress))
    return ['filtered by ipAddresses', detailOf(ipAddress)]
  if (!passesFilter(details.macAddresses, macAddress && bareHardwareAddress(macAddress)))
    return ['filtered by macAddresses', detailOf(macAddress)]
  return undefined
}

function policyFor(
  { allowedNetworks, probeAddresses, interfaces }: OnvifDetails,
  hostNames: HostNames,
): NetworkPolicy {
  const networks = allowedNetworks ?? machineNetworks({ only: interfaces })
  return new NetworkPolicy([...networks, ...readNetworks(probeAddresses.map(plainAddress))], {
    hostNames,
    ownAddresses: machineAddresses(),
  })
}
