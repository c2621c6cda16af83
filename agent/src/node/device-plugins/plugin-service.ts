import type {
  AllocateRequest,
  AllocateResponse,
  DevicePluginServer as DevicePluginCalls,
  DevicePluginOptions,
  Empty,
  ListAndWatchResponse,
  PreferredAllocationRequest,
  PreferredAllocationResponse,
  PreStartContainerRequest,
  PreStartContainerResponse,
} from '@akrijs/proto/device-plugin'
import { AkriError, messageOf, objectMessage } from '@akrijs/runtime'
import {
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import type { ContainerAllocation } from '../../core/plugins/allocation.js'
import type { AdvertisedDevice, PluginBehaviour } from '../../core/plugins/plugin-behaviour.js'
import { AllocationRefusedError } from '../../errors.js'

/** The stream on which one kubelet reads the device lists of one plugin. */
export type ListCall = ServerWritableStream<Empty, ListAndWatchResponse>

/** The calls that the kubelet should make: part of the registration and of the service. */
export const PLUGIN_OPTIONS: DevicePluginOptions = {
  preStartRequired: false,
  getPreferredAllocationAvailable: true,
}

/**
 * The gRPC service of a device plugin (kubelet API v1beta1), from the types of the core.
 * @param allocate takes the ids for each container
 */
export function pluginService(
  behaviour: Pick<PluginBehaviour, 'prefer'>,
  allocate: (ids: readonly (readonly string[])[]) => Promise<readonly ContainerAllocation[]>,
  watch: (call: ListCall) => void,
): DevicePluginCalls {
  return {
    getDevicePluginOptions: unary(async () => PLUGIN_OPTIONS),
    listAndWatch: watch,
    getPreferredAllocation: unary<PreferredAllocationRequest, PreferredAllocationResponse>(
      async ({ containerRequests }) => {
        const requests = containerRequests.map((request) => ({
          available: request.availableDeviceIDs,
          mustInclude: request.mustIncludeDeviceIDs,
          size: request.allocationSize,
        }))
        const preferred = behaviour.prefer(requests)
        return { containerResponses: preferred.map((ids) => ({ deviceIDs: [...ids] })) }
      },
    ),
    allocate: unary<AllocateRequest, AllocateResponse>(async ({ containerRequests }) => {
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
    preStartContainer: unary<PreStartContainerRequest, PreStartContainerResponse>(async () => ({})),
  }
}

export function listResponse(devices: readonly AdvertisedDevice[]): ListAndWatchResponse {
  return {
    devices: devices.map(({ id, healthy }) => ({
      ID: id,
      health: healthy ? 'Healthy' : 'Unhealthy',
      topology: undefined,
    })),
  }
}

function unary<Request, Response>(work: (request: Request) => Promise<Response>) {
  return (call: ServerUnaryCall<Request, Response>, answer: sendUnaryData<Response>): void => {
    work(call.request).then(
      (response) => answer(null, response),
      // The kubelet stores the text in the status of the Pod.
      (error: unknown) =>
        answer({ code: statusOf(error), details: objectMessage(messageOf(error)) }),
    )
  }
}

function statusOf(error: unknown): status {
  if (AllocationRefusedError.is(error)) return status.FAILED_PRECONDITION
  return AkriError.is(error) ? status.UNAVAILABLE : status.INTERNAL
}
