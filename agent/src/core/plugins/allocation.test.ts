import type { InstanceName, SlotName } from '@akrijs/api'
import { describe, expect, it } from 'vitest'
import { containerAllocation, type GrantedSlot } from './allocation.js'

function granted(
  instance: string,
  index: number,
  directory: string | undefined,
  more: Partial<GrantedSlot['instance']> = {},
): GrantedSlot {
  const slot = `${instance}-${index}` as SlotName
  const digest = instance.slice(-6)
  return {
    instance: {
      name: instance as InstanceName,
      digest,
      device: { id: instance },
      properties: {},
      ...more,
    },
    slot,
    annotation: slot,
    directory,
  }
}

const mount = (containerPath: string, hostPath: string) => ({
  containerPath,
  hostPath,
  readOnly: false,
})

describe('what a container gets to report by', () => {
  it('R68 is a directory for each of its devices, told apart by the digest', () => {
    const { envs, mounts } = containerAllocation([
      granted('cam-8120fe', 0, '/a'),
      granted('cam-a19705', 1, '/b'),
    ])
    expect(envs).toEqual({
      AKRI_BROKER_INFO_DIRECTORY: '/run/akri/cam-8120fe',
      AKRI_BROKER_INFO_DIRECTORY_8120FE: '/run/akri/cam-8120fe',
      AKRI_BROKER_INFO_DIRECTORY_A19705: '/run/akri/cam-a19705',
    })
    expect(mounts).toEqual([
      mount('/run/akri/cam-8120fe', '/a'),
      mount('/run/akri/cam-a19705', '/b'),
    ])
  })

  it('R68 is the directory of the first slot where it has several of one device', () => {
    const { mounts } = containerAllocation([
      granted('cam-8120fe', 0, '/a'),
      granted('cam-8120fe', 1, '/b'),
    ])
    expect(mounts).toEqual([mount('/run/akri/cam-8120fe', '/a')])
  })

  it('R68 is nothing where there is no directory', () => {
    expect(containerAllocation([granted('cam-8120fe', 0, undefined)])).toMatchObject({
      envs: {},
      mounts: [],
    })
  })

  it('R68 cannot be another place because a device or a Configuration says so', () => {
    const device = {
      id: 'x',
      mounts: [{ containerPath: '/run/akri/cam-8120fe', hostPath: '/etc' }],
    }
    const properties = { AKRI_BROKER_INFO_DIRECTORY: '/etc' }
    const { envs, mounts } = containerAllocation([
      granted('cam-8120fe', 0, '/a', { device, properties }),
    ])
    expect(envs.AKRI_BROKER_INFO_DIRECTORY).toBe('/run/akri/cam-8120fe')
    expect(mounts).toEqual([mount('/run/akri/cam-8120fe', '/a')])
  })
})
