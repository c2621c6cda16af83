import { describe, expect, it } from 'vitest'
import type { HandlerEndpoint } from '../../ports/handler-endpoint.js'
import { type EndpointUse, roomFor } from './endpoint-room.js'

const uses = new Map<string, EndpointUse>()

/** Endpoints of one owner, in the order of registration. */
function endpoints(
  owner: string | undefined,
  count: number,
  use: EndpointUse,
  name = 'cam',
): HandlerEndpoint[] {
  return Array.from({ length: count }, (_, index) => {
    const uid = `${name}@${owner}-${use}-${index}`
    uses.set(uid, use)
    const noLists = {
      async *[Symbol.asyncIterator]() {
        // It is not asked.
      },
    }
    return { uid, name, shared: true, ...(owner && { owner }), discover: () => noLists }
  })
}

/** The uid of the endpoint that gives way to a new one; or whether there is room without that. */
function room(owner: string, registered: readonly HandlerEndpoint[], name = 'cam'): string {
  const found = roomFor({ name, owner }, registered, ({ uid }) => uses.get(uid) ?? 'unused')
  return found.kind === 'replace' ? found.endpoint.uid : found.kind
}

/** Endpoints of as many owners. */
const singles = (count: number): HandlerEndpoint[] =>
  Array.from({ length: count }, (_, n) => endpoints(`single${n}`, 1, 'listing')).flat()

describe('the room for endpoints', () => {
  it('is free up to 8 endpoints of a name and owner, 32 of a name and 256 in all', () => {
    expect(room('a', endpoints('a', 7, 'listing'))).toBe('free')
    expect(room('a', endpoints('a', 8, 'listing'))).toBe('none')
    expect(room('a', singles(31))).toBe('free')
    expect(room('a', singles(32))).toBe('none')
    const names = Array.from({ length: 32 }, (_, n) => endpoints('a', 8, 'listing', `n${n}`)).flat()
    expect(room('a', names.slice(1))).toBe('free')
    expect(room('a', names)).toBe('none')
    expect(room('b', names)).toBe('n31@a-listing-7')
  })

  it('is that of the oldest unused endpoint of the owner with the most endpoints', () => {
    const registered = [
      ...endpoints('honest', 1, 'unused'),
      ...endpoints('flood', 4, 'listing'),
      ...endpoints('flood', 3, 'unused'),
      ...singles(24),
    ]
    for (const owner of ['honest', 'flood', 'other'])
      expect(room(owner, registered)).toBe('cam@flood-unused-0')
  })

  it('is that of the newest endpoint of the owner with the most, if all are in use', () => {
    const registered = [
      ...endpoints('honest', 1, 'listing'),
      ...endpoints('flood', 8, 'listing'),
      ...singles(23),
    ]
    expect(room('other', registered)).toBe('cam@flood-listing-7')
    expect(room('honest', registered)).toBe('cam@flood-listing-7')
    expect(room('flood', registered)).toBe('none')
  })

  it('ends with equal shares: no owner displaces an owner with as many endpoints', () => {
    const registered = ['a', 'b', 'c', 'd', 'e'].flatMap((owner) => endpoints(owner, 6, 'listing'))
    const full = [...registered, ...singles(2)]
    expect(room('a', full)).toBe('none')
    expect(room('single0', full)).toBe('cam@e-listing-5')
  })

  it('is that of an endpoint without a list before that of an endpoint with a list', () => {
    const registered = [...endpoints('a', 2, 'silent'), ...endpoints('a', 6, 'listing')]
    expect(room('a', registered)).toBe('cam@a-silent-1')
    expect(room('b', [...registered, ...singles(24)])).toBe('cam@a-silent-1')
    expect(room('b', [...singles(31), ...endpoints('mute', 1, 'silent')])).toBe('cam@mute-silent-0')
  })

  it('is never that of a handler in the process of the agent', () => {
    expect(room('a', [...endpoints(undefined, 1, 'unused'), ...singles(31)])).toBe('none')
  })
})
