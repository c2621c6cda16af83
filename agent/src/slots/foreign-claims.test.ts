import { type Instance, type InstanceName, type NodeName, objectKey } from '@akrijs/kube'
import { describe, expect, it } from 'vitest'
import { ForeignClaims } from './foreign-claims.js'

const name = 'cam-8120fe' as InstanceName
const key = objectKey('default', name)
const instance = (deviceUsage: Record<string, string>) => ({ spec: { deviceUsage } }) as unknown as Instance

describe('the claims of other nodes in an Instance that went', () => {
  it('R84 are what it said last of slots within the capacity: not those of this node, and none that nobody can read', () => {
    const claims = new ForeignClaims('node-a' as NodeName)
    claims.follow(
      key,
      instance({
        [`${name}-0`]: 'node-a',
        [`${name}-1`]: 'C:0:node-b',
        [`${name}-2`]: 'node-c',
        [`${name}-3`]: 'C:x',
        x: 'node-b',
      }),
    )
    expect(claims.of({ key, name, capacity: 4 })).toEqual({ [`${name}-1`]: 'C:0:node-b', [`${name}-2`]: 'node-c' })
    expect(claims.of({ key, name, capacity: 2 })).toEqual({ [`${name}-1`]: 'C:0:node-b' })
    claims.follow(key, instance({ [`${name}-1`]: '' }))
    expect(claims.of({ key, name, capacity: 4 })).toEqual({})
  })

  it('are remembered of ten thousand Instances', () => {
    const claims = new ForeignClaims('node-a' as NodeName)
    const at = (index: number) => ({ key: objectKey('default', `cam-${index}`), name, capacity: 1 })
    for (let index = 0; index <= 10_000; index++) claims.follow(at(index).key, instance({ [`${name}-0`]: 'node-b' }))
    expect(claims.of(at(0))).toEqual({})
    expect(claims.of(at(1))).toEqual({ [`${name}-0`]: 'node-b' })
    expect(claims.of(at(10_000))).toEqual({ [`${name}-0`]: 'node-b' })
  })
})
