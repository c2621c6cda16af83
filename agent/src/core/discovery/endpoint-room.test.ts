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

describe('the room for endpoints', () => {
  it('is free up to 32 endpoints of a name and 256 in all', () => {
    expect(room('a', endpoints('a', 31, 'listing'))).toBe('free')
    expect(room('a', endpoints('a', 32, 'listing'))).toBe('none')
    const names = Array.from({ length: 16 }, (_, n) => endpoints('a', 16, 'listing', `n${n}`))
    expect(room('a', names.flat().slice(1))).toBe('free')
    expect(room('a', names.flat())).toBe('none')
  })

  it('is that of the oldest unused endpoint of the owner with the most endpoints', () => {
    const registered = [
      ...endpoints('honest', 1, 'unused'),
      ...endpoints('flood', 20, 'listing'),
      ...endpoints('flood', 11, 'unused'),
    ]
    for (const owner of ['honest', 'flood', 'other'])
      expect(room(owner, registered)).toBe('cam@flood-unused-0')
  })

  it('is that of the newest endpoint of the owner with the most, if all are in use', () => {
    const registered = [...endpoints('honest', 1, 'listing'), ...endpoints('flood', 31, 'listing')]
    expect(room('other', registered)).toBe('cam@flood-listing-30')
    expect(room('honest', registered)).toBe('cam@flood-listing-30')
    expect(room('flood', registered)).toBe('none')
  })

  it('ends with equal shares: no owner displaces an owner with as many endpoints', () => {
    const registered = [...endpoints('a', 16, 'listing'), ...endpoints('b', 16, 'listing')]
    expect(room('a', registered)).toBe('none')
    expect(room('c', registered)).not.toBe('none')
    const single = Array.from({ length: 32 }, (_, n) => endpoints(`o${n}`, 1, 'listing')).flat()
    expect(room('other', single)).toBe('none')
  })

  it('is that of an endpoint without a list before that of an endpoint with a list', () => {
    const registered = [...endpoints('a', 2, 'silent'), ...endpoints('a', 30, 'listing')]
    expect(room('a', registered)).toBe('cam@a-silent-1')
    expect(room('b', registered)).toBe('cam@a-silent-1')
    const single = Array.from({ length: 31 }, (_, n) => endpoints(`o${n}`, 1, 'listing')).flat()
    expect(room('new', [...single, ...endpoints('mute', 1, 'silent')])).toBe('cam@mute-silent-0')
  })

  it('is never that of a handler in the process of the agent', () => {
    const registered = [...endpoints(undefined, 1, 'unused'), ...endpoints('a', 31, 'listing')]
    expect(room('a', registered)).toBe('none')
  })
})
