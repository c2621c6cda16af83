import type {
  DevicePluginOptions,
  DevicePluginServer,
  Empty,
  ListAndWatchResponse,
} from '@akrijs/proto/device-plugin'
import { AkriError, messageOf, objectMessage } from '@akrijs/runtime'
import { type handleUnaryCall, type ServerWritableStream, status } from '@grpc/grpc-js'
import { AllocationRefusedError } from '../errors.js'
import type { ContainerAllocation } from './allocation.js'
import type { AdvertisedDevice, PluginBehaviour } from './plugin-behaviour.js'

/** The calls that the kubelet should make: part of the registration and of the service. */
export const PLUGIN_OPTIONS: DevicePluginOptions = {
  preStartRequired: false,
  getPreferredAllocationAvailable: true,
}

/** A stream on which the kubelet reads device lists. */
export type ListCall = ServerWritableStream<Empty, ListAndWatchResponse>

/** One device plugin, in the types of the core. */
export interface PluginCalls {
  readonly behaviour: Pick<PluginBehaviour, 'prefer'>
  /** @param ids the ids for each container */
  allocate(ids: readonly (readonly string[])[]): Promise<readonly ContainerAllocation[]>
  watch(call: ListCall): void
}

/** The gRPC service of a device plugin (kubelet API v1beta1). */
export function pluginService({ behaviour, allocate, watch }: PluginCalls): DevicePluginServer {
  return {
    getDevicePluginOptions: unary(async () => PLUGIN_OPTIONS),
    listAndWatch: watch,
    getPreferredAllocation: unary(async ({ containerRequests }) => {
      const requests = containerRequests.map((request) => ({
        available: request.availableDeviceIDs,
        mustInclude: request.mustIncludeDeviceIDs,
        size: request.allocationSize,
      }))
      const preferred = behaviour.prefer(requests)
      return { containerResponses: preferred.map((ids) => ({ deviceIDs: [...ids] })) }
    }),
    allocate: unary(async ({ containerRequests }) => {
      const allocations = await allocate(containerRequests.map(({ devicesIDs }) => devicesIDs))
      return {
        containerResponses: allocations.map(({ mounts, devices, ...allocation }) => ({
          ...allocation,
          mounts: [...mounts],
          devices: [...devices],
          cdiDevices: [],
        })),
      }
    }),
    preStartContainer: unary(async () => ({})),
  }
}

type ListedDevice = ListAndWatchResponse['devices'][number]

/** A list tells all devices: nearly all are those of the list before. */
const listed = new WeakMap<AdvertisedDevice, ListedDevice>()

export function listResponse(devices: readonly AdvertisedDevice[]): ListAndWatchResponse {
  return { devices: devices.map(listedDevice) }
}

function listedDevice(device: AdvertisedDevice): ListedDevice {
  const before = listed.get(device)
  if (before !== undefined) return before
  const { id: ID, healthy } = device
  const made = { ID, health: healthy ? 'Healthy' : 'Unhealthy', topology: undefined }
  listed.set(device, made)
  return made
}

/** The kubelet stores the text of a failure in the status of the Pod. */
function unary<Request, Response>(
  work: (request: Request) => Promise<Response>,
): handleUnaryCall<Request, Response> {
  return ({ request }, answer) => {
    work(request).then(
      (response) => answer(null, response),
      (error: unknown) => answer({ code: codeOf(error), details: objectMessage(messageOf(error)) }),
    )
  }
}

function codeOf(error: unknown): status {
  if (AllocationRefusedError.is(error)) return status.FAILED_PRECONDITION
  return AkriError.is(error) ? status.UNAVAILABLE : status.INTERNAL
}
