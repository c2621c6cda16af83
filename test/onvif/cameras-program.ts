import {
  type DiscoveryFaults,
  SimulatedCamera,
  type SimulatedCameraOptions,
} from '../../handlers/onvif/src/testing/index.js'

/** The commands of a test to the simulated cameras of a host. */
export interface CameraCommands {
  start(
    options: SimulatedCameraOptions,
  ): Promise<{ readonly index: number; readonly uuid: string; readonly url: string }>
  hello(index: number): Promise<void>
  bye(index: number): Promise<void>
  close(index: number): Promise<void>
  faults(index: number, faults: DiscoveryFaults): Promise<void>
  /** The sums over all cameras. */
  counts(): Promise<{ readonly probes: number; readonly requests: number }>
}

const cameras: SimulatedCamera[] = []

function at(index: number): SimulatedCamera {
  const camera = cameras[index]
  if (camera === undefined) throw new RangeError(`there is no camera ${index}`)
  return camera
}

const commands: CameraCommands = {
  async start(options) {
    const camera = await SimulatedCamera.start(options)
    return { index: cameras.push(camera) - 1, uuid: camera.uuid, url: camera.service.url }
  },
  hello: (index) => at(index).hello(),
  bye: (index) => at(index).bye(),
  close: (index) => at(index).close(),
  async faults(index, faults) {
    Object.assign(at(index).faults, faults)
  },
  async counts() {
    const sum = (value: (camera: SimulatedCamera) => number) =>
      cameras.reduce((total, camera) => total + value(camera), 0)
    return {
      probes: sum(({ probes }) => probes),
      requests: sum(({ service }) => service.requests.length),
    }
  },
}

interface Call {
  readonly id: number
  readonly command: keyof CameraCommands
  readonly args: readonly never[]
}

process.on('message', async ({ id, command, args }: Call) => {
  const run = commands[command] as (...all: readonly never[]) => Promise<unknown>
  try {
    process.send?.({ id, result: await run(...args) })
  } catch (error) {
    process.send?.({ id, error: String(error) })
  }
})
process.on('disconnect', () => process.exit(0))
