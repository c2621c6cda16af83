import { describe, expect, it } from 'vitest'
import { Presence } from './presence.js'

describe('Presence', () => {
  const ids = (devices: { id: string }[]) => devices.map(({ id }) => id)

  it('keeps a device for the allowed number of missed rounds in a row', () => {
    const presence = new Presence({ missesAllowed: 2 })
    expect(ids(presence.round([{ id: 'a' }]))).toEqual(['a'])
    expect(ids(presence.round([]))).toEqual(['a'])
    expect(ids(presence.round([{ id: 'a' }]))).toEqual(['a'])
    expect(ids(presence.round([]))).toEqual(['a'])
    expect(ids(presence.round([]))).toEqual(['a'])
    expect(ids(presence.round([]))).toEqual([])
  })

  it('returns each device as last seen, and forgets a device after a goodbye', () => {
    const presence = new Presence({ missesAllowed: 1 })
    presence.round([{ id: 'a', properties: { IP: '1' } }])
    presence.round([{ id: 'a', properties: { IP: '2' } }, { id: 'b' }])
    expect(presence.round([])).toEqual([{ id: 'a', properties: { IP: '2' } }, { id: 'b' }])
    presence.forget('a')
    expect(ids(presence.round([{ id: 'b' }]))).toEqual(['b'])
  })

  it.each([-1, 0.5, Number.NaN])('refuses %s as a number of rounds', (missesAllowed) => {
    expect(() => new Presence({ missesAllowed })).toThrow(/missesAllowed/)
  })
})
