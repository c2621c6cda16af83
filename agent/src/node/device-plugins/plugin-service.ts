import {
  type DevicePluginOptions,
  DevicePluginService,
  type ListAndWatchResponse,
} from '@akrijs/proto/device-plugin'
import { AkriError, messageOf, objectMessage } from '@akrijs/runtime'
import { status } from '@grpc/grpc-js'
import type { ContainerAllocation } from '../../core/plugins/allocation.js'
import type { AdvertisedDevice, PluginBehaviour } from '../../core/plugins/plugin-behaviour.js'
import { AllocationRefusedError } from '../../errors.js'
import type { GrpcMethod, GrpcStatus, GrpcStream } from '../grpc/grpc-service.js'

/** The calls that the kubelet should make: part of the registration and of the service. */
export const PLUGIN_OPTIONS: DevicePluginOptions = {
  preStartRequired: false,
  getPreferredAllocationAvailable: true,
}

/** One device plugin, in the types of the core. */
export interface PluginCalls {
  readonly behaviour: Pick<PluginBehaviour, 'prefer'>
  /** @param ids the ids for each container */
  allocate(ids: readonly (readonly string[])[]): Promise<readonly ContainerAllocation[]>
  /** @returns called when the kubelet ends the stream */
  watch(stream: GrpcStream): () => void
}

type MethodOf = (calls: PluginCalls) => GrpcMethod

/** The gRPC service of a device plugin (kubelet API v1beta1), by the path of the method. */
const METHODS: ReadonlyMap<string, MethodOf> = new Map([
  unary(DevicePluginService.getDevicePluginOptions, async () => PLUGIN_OPTIONS),
  [
    DevicePluginService.listAndWatch.path,
    (calls) => ({ kind: 'stream', open: (stream) => calls.watch(stream) }),
  ],
  unary(
    DevicePluginService.getPreferredAllocation,
    async ({ containerRequests }, { behaviour }) => {
      const requests = containerRequests.map((request) => ({
        available: request.availableDeviceIDs,
        mustInclude: request.mustIncludeDeviceIDs,
        size: request.allocationSize,
      }))
      const preferred = behaviour.prefer(requests)
      return { containerResponses: preferred.map((ids) => ({ deviceIDs: [...ids] })) }
    },
  ),
  unary(DevicePluginService.allocate, async ({ containerRequests }, calls) => {
    const ids = containerRequests.map(({ devicesIDs }) => devicesIDs)
    const allocations = await calls.allocate(ids)
    return {
      containerResponses: allocations.map(({ mounts, devices, ...allocation }) => ({
        ...allocation,
        mounts: [...mounts],
        devices: [...devices],
        cdiDevices: [],
      })),
    }
  }),
  unary(DevicePluginService.preStartContainer, async () => ({})),
])

export function pluginMethod(calls: PluginCalls, path: string): GrpcMethod | undefined {
  return METHODS.get(path)?.(calls)
}

/** The status of a call that failed. The kubelet stores the text in the status of the Pod. */
export function statusOf(error: unknown): GrpcStatus {
  return { code: codeOf(error), details: objectMessage(messageOf(error)) }
}

type ListedDevice = ListAndWatchResponse['devices'][number]

/** A list tells all devices: nearly all are those of the list before. */
const listed = new WeakMap<AdvertisedDevice, ListedDevice>()

export function listResponse(devices: readonly AdvertisedDevice[]): Uint8Array {
  return DevicePluginService.listAndWatch.responseSerialize({ devices: devices.map(listedDevice) })
}

function listedDevice(device: AdvertisedDevice): ListedDevice {
  const before = listed.get(device)
  if (before !== undefined) return before
  const { id: ID, healthy } = device
  const made = { ID, health: healthy ? 'Healthy' : 'Unhealthy', topology: undefined }
  listed.set(device, made)
  return made
}

interface UnaryDefinition<Request, Response> {
  readonly path: string
  requestDeserialize(bytes: Buffer): Request
  responseSerialize(response: Response): Buffer
}

function unary<Request, Response>(
  { path, requestDeserialize, responseSerialize }: UnaryDefinition<Request, Response>,
  work: (request: Request, calls: PluginCalls) => Promise<Response>,
): [path: string, method: MethodOf] {
  return [
    path,
    (calls) => ({
      kind: 'unary',
      answer: async (request) => responseSerialize(await work(requestDeserialize(request), calls)),
    }),
  ]
}

function codeOf(error: unknown): status {
  if (AllocationRefusedError.is(error)) return status.FAILED_PRECONDITION
  return AkriError.is(error) ? status.UNAVAILABLE : status.INTERNAL
}
