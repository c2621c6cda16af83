import { describe, expect, it } from 'vitest'
import { type ContainerText, podDemand } from './pod-demand.js'

const asks = (count: string | number, restartPolicy?: string): ContainerText => ({
  ...(restartPolicy === undefined ? {} : { restartPolicy }),
  resources: { limits: { 'akri.sh/cam': String(count), cpu: '2' } },
})
const initialized = (is: boolean) => ({
  conditions: [{ type: 'Initialized', status: is ? 'True' : 'False' }],
})
const demandOf = (containers: ContainerText[], initContainers: ContainerText[], is: boolean) =>
  podDemand({ spec: { containers, initContainers }, status: initialized(is) }).get('akri.sh/cam')

describe('the demand of a Pod for a resource', () => {
  it.each<[string, ContainerText[], ContainerText[], number | undefined, number | undefined]>([
    ['of one container', [asks(2)], [], 2, 2],
    ['of all its containers together', [asks(2), asks(1)], [], 3, 3],
    ['of the largest init container until it has ended', [asks(1)], [asks(3), asks(2)], 3, 1],
    ['of an init container alone, none after it has ended', [{}], [asks(1)], 1, 0],
    ['of an init container that runs on, as of the others', [asks(1)], [asks(1, 'Always')], 2, 2],
    ['of an init container beside one that runs on', [asks(1)], [asks(1, 'Always'), asks(3)], 4, 2],
    ['of none', [{}], [], undefined, undefined],
    ['of a container that asks for 0', [asks(0)], [asks(0)], undefined, undefined],
  ])('R92 is that %s', (_, containers, initContainers, before, after) => {
    expect(demandOf(containers, initContainers, false)).toBe(before)
    expect(demandOf(containers, initContainers, true)).toBe(after)
  })

  it.each([
    ['1k', 1000],
    ['2e3', 2000],
    ['1Ki', 1024],
    ['what', 1],
  ])('reads the quantity %s', (quantity, number) => {
    expect(demandOf([asks(quantity)], [], true)).toBe(number)
  })

  it('is nothing for an object that is no Pod, and for other resources', () => {
    expect(podDemand({})).toEqual(new Map())
    expect([...podDemand({ spec: { containers: [asks(1)] } }).keys()]).toEqual(['akri.sh/cam'])
    expect(
      podDemand({ spec: { containers: [{ resources: { requests: { 'akri.sh/a': '1' } } }] } }),
    ).toEqual(new Map([['akri.sh/a', 1]]))
  })
})
